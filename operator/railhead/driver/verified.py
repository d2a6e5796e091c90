"""Checks what the operator put into this pod, and uses copies of it.

Whoever may create ConfigMaps or Secrets in the namespace could replace one before it is mounted, and the kubelet would
update a mounted one that is not immutable.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Mapping, NoReturn

from railhead.contract import environment as e
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import CA_KEY, FILE, JobInput
from railhead.contract.text import digest, digest_files
from railhead.driver.describe import log
from railhead.driver.ending import build_outcome, write_termination_message

TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"


class Replaced(Exception):
    """The pod has other content than the operator's."""


def use_verified(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with paths of checked copies; ends the process if a check fails."""
    try:
        return check_content(environment)
    except Replaced as problem:
        _end(Failure(FailureClass.INFRASTRUCTURE, "ContentReplaced", str(problem)), environment)


def check_content(environment: Mapping[str, str]) -> dict[str, str]:
    """Checks the input, the inline code and Ray's token, each if the operator tells a digest of it.

    Raises:
        Replaced: the message names the object.
        OSError: a file cannot be read or copied.
    """
    result, temp = dict(environment), Path(environment[e.TEMP])
    wanted, token = environment.get(e.INPUT_DIGEST), environment.get(e.TOKEN_DIGEST)
    if wanted is not None:
        files = _read(Path(environment[e.INPUT]), only={FILE, CA_KEY})
        if digest_files(files) != wanted:
            raise Replaced(_explain("ConfigMap", f"input-{wanted}"))
        result[e.INPUT] = _copy(files, temp / "input")
        code = JobInput.from_json(files[FILE].decode()).source_digest
        if code and e.TOKEN_DIGEST in environment:  # the init container that fetches code has no such mount
            files = _read(Path(environment[e.SOURCE]))
            if digest_files(files) != code:
                raise Replaced(_explain("ConfigMap", f"input-{wanted}"))
            result[e.SOURCE] = _copy(files, temp / "source")
    if token is not None and digest(Path(environment[TOKEN_PATH]).read_bytes()) != token:
        raise Replaced(_explain("Secret", f"auth-{token}"))
    return result


def _explain(kind: str, end: str) -> str:
    return f"somebody replaced the {kind} whose name ends with {end}; delete it, and the operator creates it again"


def _read(folder: Path, *, only: frozenset[str] | set[str] = frozenset()) -> dict[str, bytes]:
    """The files of a mounted ConfigMap; the kubelet's own entries begin with two dots."""
    names = only or {path.name for path in folder.iterdir() if not path.name.startswith("..")}
    return {name: (folder / name).read_bytes() for name in sorted(names) if (folder / name).is_file()}


def _copy(files: Mapping[str, bytes], folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return str(folder)


def _end(failure: Failure, environment: Mapping[str, str]) -> NoReturn:
    write_termination_message(build_outcome(failure).to_json(), environment.get(e.TERMINATION_MESSAGE))
    log(f"{failure.class_}: {failure.message}")
    sys.stdout.flush()
    os._exit(failure.class_.exit_code)
