"""The files of a folder that `submit --code` sends: those that git does not ignore, and none with credentials.

git itself decides what is ignored, also in a folder that is no repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from railhead.api.source import RELATIVE_PATH
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.contract.text import clean_line

MOST_FILES = 128  # items of spec.source.configMap
# A ConfigMap holds 1 MiB, its keys and metadata included.
MOST_BYTES = 900 * 1024
# 128 longer ones would exceed the API server's budget for the rules of configMap.items.
LONGEST_PATH = 200
IGNORE_FILE = ".railheadignore"
# Of a file or of a folder above it, in lower case.
SECRET_NAMES = (
    *(".env*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.ppk", "*.kdbx", "*.tfstate", "*.tfvars"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".kube", "*kubeconfig*"),
    *(".aws", ".azure", ".gcloud", "gcloud", ".boto", ".s3cfg", "rclone.conf", ".docker", ".dockercfg"),
    *("credentials", "*credentials*.json", "*credentials*.y*ml", "*credentials*.toml", "*credentials*.csv"),
    *("*service?account*.json", "secrets.json", "secrets.y*ml", "secrets.toml"),
    *(".netrc", "_netrc", ".pypirc", ".npmrc", ".pgpass", ".git-credentials"),
)
SECRET_CONTENTS = (
    ("a private key", rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY"),
    ("a kubeconfig", rb"(?m)^\s{0,8}[\"']?(?:client-key-data|id-token)[\"']?:\s{0,4}\S"),
    ("AWS credentials", rb"(?i)aws_secret_access_key[\"']?\s{0,4}[=:]\s{0,4}[\"']?[a-z0-9/+]{40}(?![a-z0-9/+])"),
    (
        "an access token",
        rb"\b(?:hf_[A-Za-z0-9]{30}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50}|glpat-[-\w]{20}|xox[abeoprs]-[-\w]{20}"
        rb"|xapp-[-\w]{20}|AIza[-\w]{35}|ya29\.[-\w]{20}|sk-(?=[-\w]*[0-9])[-\w]{32}|npm_[A-Za-z0-9]{36}"
        rb"|pypi-[-\w]{50}|SG\.[-\w]{20,24}\.[-\w]{40})",
    ),
    ("an AWS access key", rb"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    (
        "a key of Weights & Biases",
        rb"(?i)wandb(?:\w{0,20}key|\.login\(\s{0,4}key)[\"'\])]{0,3}\s{0,4}[=:(,]\s{0,4}[\"']?[a-f0-9]{40}(?![a-z0-9])",
    ),
    ("a key of Azure storage", rb"(?i)accountkey=[a-z0-9+/]{80,90}={0,2}"),
)
_CHOICES = (
    "leave files out by .railheadignore, take larger code from the image, spec.source.git or spec.source.image, "
    "and read data from the storage"
)
_INCLUDE = "list it in .railheadignore, or add --include PATH if the pods may have it"


@dataclass(frozen=True)
class CodeFile:
    """A file of the user's code.

    Attributes:
        path: relative to the folder, with / on every system.
    """

    path: str
    content: bytes


def read_code(folder: Path, includes: Sequence[str]) -> tuple[CodeFile, ...]:
    """Returns the files, sorted by path; `includes`: patterns of files that are taken although they look secret.

    Raises:
        ClientError: a file must not be sent, or there are too many; names the files and what to do.
    """
    root = folder.resolve()
    if not root.is_dir():
        raise ClientError(f"--code {folder}: there is no such folder", ExitCode.USAGE)
    paths = list_paths(root)
    for pattern in includes:
        if not any(fnmatchcase(path, pattern) for path in paths):
            raise ClientError(f"--include {pattern} matches no file of {folder}", ExitCode.USAGE)
    included = {path for path in paths if any(fnmatchcase(path, pattern) for pattern in includes)}
    _refuse([(path, why) for path in paths if (why := _check_path(root, path, is_included=path in included))])
    _check_size(folder, {path: (root / path).stat().st_size for path in paths})
    files = []
    for path in paths:
        try:
            files.append(CodeFile(path, (root / path).read_bytes()))
        except OSError as error:
            raise ClientError(f"{clean_line(path)} cannot be read: {error.strerror}", ExitCode.USAGE) from None
    found = ((each.path, find_secret(each.content)) for each in files if each.path not in included)
    _refuse([(path, f"contains {secret}; {_INCLUDE}") for path, secret in found if secret])
    return tuple(files)


def list_paths(root: Path) -> list[str]:
    """Returns the paths of what git tracks or would add, without those of .railheadignore, sorted."""
    with tempfile.TemporaryDirectory() as empty:
        git = ["git", "-C", str(root), "-c", "core.fsmonitor=false"]
        try:
            _run([*git, "rev-parse", "--show-toplevel"])
        except ClientError as error:
            if "not a git repository" not in str(error):
                raise
            _run(["git", "init", "-q", empty])
            git += ["--git-dir", os.path.join(empty, ".git"), "--work-tree", "."]
        kept = _run([*git, "ls-files", "-z", "-c", "-o", "--exclude-standard"])
        left_out = _run([*git, "ls-files", "-z", "-c", "-o", "-i", f"--exclude-per-directory={IGNORE_FILE}"])
    paths = {os.fsdecode(each).rstrip("/") for each in {*kept.split(b"\0")} - {*left_out.split(b"\0")} if each}
    # git tracks what was just deleted.
    return sorted(path for path in paths if os.path.lexists(root / path))


def _run(command: Sequence[str]) -> bytes:
    # git sets these for its hooks. They would name the repository of the hook instead of the folder's.
    environment = {key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE")}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env={**environment, "LC_ALL": "C"})
    except FileNotFoundError:
        message = "--code needs git, which knows the files that are ignored; install it, or send a single Python file"
        raise ClientError(message, ExitCode.USAGE) from None
    if done.returncode:
        raise ClientError(f"git cannot list the files: {done.stderr.decode(errors='replace').strip()}", ExitCode.USAGE)
    return done.stdout


def _check_path(root: Path, path: str, *, is_included: bool) -> str:
    """Returns why the file must not be sent, "" if it may."""
    if len(path) > LONGEST_PATH or not re.fullmatch(RELATIVE_PATH, path):
        limit = f"paths in pods have letters, digits and -_. only, and at most {LONGEST_PATH} characters"
        return f"cannot be sent: {limit}; rename it, or list it in {IGNORE_FILE}"
    file = (root / path).resolve()
    if file.is_dir():
        kind = "another git repository"
        if (root / path).is_symlink():
            kind = "a link to a folder"
        return f"is {kind}; copy its files, or list it in {IGNORE_FILE}"
    if not file.is_file():
        return f"is no file, or a link to nothing; remove it, or list it in {IGNORE_FILE}"
    if is_included:
        return ""
    if not file.is_relative_to(root):
        return f"links to a file outside of the folder; {_INCLUDE}"
    is_secret = is_secret_name(PurePath(path)) or is_secret_name(file.relative_to(root))
    if is_secret:
        return f"has the name of a file with credentials; {_INCLUDE}"
    return ""


def is_secret_name(path: PurePath) -> bool:
    """Returns whether the name of the file, or of a folder above it, is one that tools use for credentials."""
    return any(fnmatchcase(part.lower(), pattern) for part in path.parts for pattern in SECRET_NAMES)


def find_secret(content: bytes) -> str:
    """Returns which kind of credentials the content has, "" if none is found; also in the text of UTF-16."""
    text = content.replace(b"\0", b"")
    return next((kind for kind, pattern in SECRET_CONTENTS if re.search(pattern, text)), "")


def _refuse(found: Sequence[tuple[str, str]]) -> None:
    if found:
        lines = [f"  {clean_line(path)} {why}" for path, why in found[:10]]
        more = [f"  and {len(found) - 10} more"] if len(found) > 10 else []
        raise ClientError("\n".join(["these files are not sent:", *lines, *more]), ExitCode.USAGE)


def _check_size(folder: Path, sizes: dict[str, int]) -> None:
    if not sizes:
        raise ClientError(f"--code {folder}: the folder has no files that are not ignored", ExitCode.USAGE)
    total = sum(sizes.values())
    if len(sizes) > MOST_FILES or total > MOST_BYTES:
        largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:5]
        what = f"{folder} has {len(sizes)} files with {format_size(total)}; {MOST_FILES} files and 900 KiB can be sent"
        names = ", ".join(f"{path} ({format_size(sizes[path])})" for path in largest)
        raise ClientError(f"{what}; {_CHOICES}\nthe largest are {names}", ExitCode.USAGE)


def format_size(size: int) -> str:
    """Returns such as 17 B, 1.5 KiB, 2.0 MiB or 14.0 GiB."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 3)
    return f"{size / 1024**power:.1f} {' KMG'[power]}iB"


def name_module(script: PurePath, folder: PurePath) -> str:
    """Returns the module of a script below the folder, such as pkg.train. Both paths are absolute.

    Raises:
        ClientError: the script is not in the folder, or its path is no module.
    """
    try:
        parts = script.relative_to(folder).with_suffix("").parts
    except ValueError:
        raise ClientError(f"{script} is not in the folder of --code, {folder}", ExitCode.USAGE) from None
    if not all(part.isidentifier() for part in parts):
        dotted = ".".join(parts)
        raise ClientError(f"{script} cannot be imported: {dotted} is not a module name; rename it", ExitCode.USAGE)
    return ".".join(parts)
