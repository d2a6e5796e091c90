"""Checks the mounted files by the digests that the operator tells.

An attacker who may create ConfigMaps or Secrets in the namespace could replace one before it is mounted, and the
kubelet would update a mounted one that is not immutable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from railhead.contract import environment
from railhead.contract.digest import digest, digest_files
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import CA_KEY, FILE, JobInput
from railhead.driver.messages.attempt_errors import AttemptFailed

TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"


def check_content(variables: Mapping[str, str]) -> dict[str, str]:
    """Checks the input, the inline code and Ray's token, each if the operator tells a digest of it.

    Returns the environment with the paths of checked copies. Raises AttemptFailed if an object was replaced, and
    OSError.
    """
    result = dict(variables)
    temp = Path(variables[environment.TEMP])
    wanted = variables.get(environment.INPUT_DIGEST)
    token = variables.get(environment.TOKEN_DIGEST)
    if wanted is not None:
        files = _read(Path(variables[environment.INPUT]), only={FILE, CA_KEY})
        if digest_files(files) != wanted:
            raise _replaced("ConfigMap", f"input-{wanted}")
        result[environment.INPUT] = _copy(files, temp / "input")
        code = JobInput.from_json(files[FILE].decode()).source_digest
        # The init container that fetches code has no such mount.
        if code and environment.TOKEN_DIGEST in variables:
            files = _read(Path(variables[environment.SOURCE]))
            if digest_files(files) != code:
                raise _replaced("ConfigMap", f"input-{wanted}")
            result[environment.SOURCE] = _copy(files, temp / "source")
    if token is not None and digest(Path(variables[TOKEN_PATH]).read_bytes()) != token:
        raise _replaced("Secret", f"auth-{token}")
    return result


def _replaced(kind: str, end: str) -> AttemptFailed:
    message = f"the {kind} whose name ends with {end} was replaced; delete it, and the operator creates it again"
    return AttemptFailed(Failure(FailureClass.INFRASTRUCTURE, "ContentReplaced", message))


def _read(folder: Path, *, only: frozenset[str] | set[str] = frozenset()) -> dict[str, bytes]:
    """Returns the files of a mounted ConfigMap, without the kubelet's own entries, which begin with two dots."""
    names = only or {path.name for path in folder.iterdir() if not path.name.startswith("..")}
    return {name: (folder / name).read_bytes() for name in sorted(names) if (folder / name).is_file()}


def _copy(files: Mapping[str, bytes], folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return str(folder)
