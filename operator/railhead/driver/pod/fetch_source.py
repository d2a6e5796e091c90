"""The init container of a job with spec.source.git: fetches one commit with the image's git and a mounted Secret.

Runs nothing from the repository or from the image's git configuration: no hooks, no
submodules, no filters (LFS files stay pointers), no protocol but https and ssh, no prompt.

Credentials are never passed as an argument and never printed except to git itself: for https they are in its
environment, and ssh reads a copy of the key that only we can read.

A message ends with git's own last lines. What git prints is not read any further: a commit that no branch and no tag of
a repository leads to is the user's to correct, and every other failure may pass, so it is tried again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Mapping, NoReturn, Optional
from urllib.parse import urlsplit

from railhead.contract import environment
from railhead.contract.job_input import CHECKOUT, FILE, JobInput
from railhead.driver.container.pod_processes import exit_at_sigterm
from railhead.driver.messages.attempt_errors import JobRefused, Unreachable
from railhead.driver.messages.exception_text import read_text
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import redact
from railhead.driver.storage.storage_call import Patience

FIELD = "spec.source.git"
# of Secrets of type kubernetes.io/basic-auth
USERNAME = "username"
PASSWORD = "password"
PRIVATE_KEY = "ssh-privatekey"  # of type kubernetes.io/ssh-auth
KNOWN_HOSTS = "known_hosts"
CA = "ca.crt"
ANY_USERNAME = "git"  # servers that accept tokens require some username
# A credential helper, in the shell that git runs it with; we store nothing that git sends.
HELPER = '!answer() { printf "username=%s\\npassword=%s\\n" "$RAILHEAD_USERNAME" "$RAILHEAD_PASSWORD"; }; answer'

SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    # An empty value clears the list, so that no helper but ours gets the credentials.
    "credential.helper=",
    "http.lowSpeedLimit=1000",  # bytes per second, for lowSpeedTime seconds: a server that hangs
    "http.lowSpeedTime=60",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)
# Variables of the container; everything else could change what git does.
PASSED_ON = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "TZ", "TMPDIR"}
    | {case for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for case in (name, name.upper())}
)
NOT_FETCHED = "SourceNotFetched"


def run_fetch(variables: Mapping[str, str]) -> NoReturn:
    """Raises JobRefused or Unreachable."""
    exit_at_sigterm()
    wanted = JobInput.from_json(Path(variables[environment.INPUT], FILE).read_text()).git
    if wanted is None:
        raise ValueError("the job's input has no spec.source.git")
    folder = variables.get(environment.GIT_CREDENTIALS)
    git = Git(
        wanted.repository,
        wanted.revision,
        wanted.path,
        variables,
        home=Path(variables[environment.TEMP]),
        credentials=Path(folder) if folder else None,
    )
    try:
        if git.credentials is not None:
            check_credentials(git.credentials, repository=git.repository, secret=wanted.secret_name)
        log(f"fetching commit {git.revision} of {git.repository}")
        fetch_commit(git, Path(variables[environment.SOURCE], CHECKOUT))
    except (OSError, ValueError) as error:
        # A full disk, an unreadable Secret, a password that is no text.
        raise Unreachable(NOT_FETCHED, f"{FIELD}: {type(error).__name__}: {read_text(error)}") from error
    log("the commit is checked out")
    os._exit(0)


@dataclass(frozen=True)
class Git:
    """The commit to fetch, with the fields of spec.source.git, and how to run git for it.

    Attributes:
        environment: of this container.
        home: our own folder, which the training container does not see.
        credentials: the folder of the mounted Secret, or None.
        patience_seconds: for how long a server that cannot serve is tried again.
    """

    repository: str
    revision: str
    path: str
    environment: Mapping[str, str]
    home: Path
    credentials: Optional[Path]
    patience_seconds: float = 180.0  # a connection that nothing answers ends after two minutes

    @property
    def is_https(self) -> bool:
        return self.repository.startswith("https://")


def fetch_commit(git: Git, folder: Path) -> None:
    """Checks the commit out into `folder`, which it creates from scratch. Raises JobRefused or Unreachable."""
    if shutil.which("git", path=git.environment.get("PATH")) is None:
        raise JobRefused("GitMissing", f"{FIELD}.image: the image has no git; name one with git and python3")
    patience = Patience(lambda problem: log(f"{problem}; retrying"), seconds=git.patience_seconds)
    patience.call(partial(_try, git, folder))


def _try(git: Git, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    # Created by us: git does not trust another user's folder.
    folder.mkdir(parents=True)
    sha256 = ["--object-format=sha256"] if len(git.revision) == 64 else []
    _run(git, folder, "init", "--quiet", "--template=", *sha256)
    _fetch(git, folder)
    _run(git, folder, "checkout", "--quiet", "--detach", f"{git.revision}^{{commit}}", "--")
    if not (folder / git.path).is_dir():
        message = f"{FIELD}.path: commit {git.revision} of {git.repository} has no folder {git.path}"
        raise JobRefused("PathNotFound", message)


def _fetch(git: Git, folder: Path) -> None:
    """Fetches the one commit; or all branches and tags, from a server that does not serve it by its hash."""
    options = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    output = _try_run(git, folder, *options, "--depth=1", "--", git.repository, git.revision)
    if output is None:
        return
    everything = ("+refs/heads/*:refs/remotes/source/*", "+refs/tags/*:refs/tags/*")
    _run(git, folder, *options, "--", git.repository, *everything)
    if _try_run(git, folder, "cat-file", "-e", f"{git.revision}^{{commit}}") is not None:
        message = f"{git.repository} has no commit {git.revision}, or does not serve it to these credentials"
        raise JobRefused("CommitNotFound", f"{FIELD}.revision: {message}: {_quote(output)}")
    log("the server does not serve the commit by its hash; all branches and tags are fetched")


def _run(git: Git, folder: Path, *arguments: str) -> None:
    output = _try_run(git, folder, *arguments)
    if output is not None:
        raise explain_output(output, repository=git.repository)


def _try_run(git: Git, folder: Path, *arguments: str) -> Optional[str]:
    """Returns None when git succeeds, else its standard error."""
    done = subprocess.run(
        [*build_command(git), *arguments],
        cwd=folder,
        env=build_environment(git),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if done.returncode == 0:
        return None
    return done.stderr.decode(errors="replace") or f"fatal: git exited with code {done.returncode}"


def explain_output(output: str, *, repository: str) -> Unreachable:
    """Returns the problem for git's standard error."""
    advice = "if that does not pass, correct repository, secretName or image"
    return Unreachable(NOT_FETCHED, f"{FIELD}: {repository} cannot be fetched; {advice}: {_quote(output)}")


def _quote(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("hint:")]
    return redact("; ".join(lines[-5:]))[:600] or "git printed nothing"


def build_command(git: Git) -> list[str]:
    settings = list(SETTINGS)
    if git.credentials is not None and git.is_https and (git.credentials / PASSWORD).exists():
        # For this server only, even after a redirect to another one.
        settings.append(f"credential.https://{urlsplit(git.repository).netloc}.helper={HELPER}")
    return ["git", *(word for setting in settings for word in ("-c", setting))]


def build_environment(git: Git) -> dict[str, str]:
    result = {name: value for name, value in git.environment.items() if name in PASSED_ON}
    result.update(
        HOME=str(git.home),
        XDG_CONFIG_HOME=str(git.home),
        LC_ALL="C",  # messages in one language
        GIT_CONFIG_NOSYSTEM="1",
        GIT_CONFIG_GLOBAL="/dev/null",
        GIT_TERMINAL_PROMPT="0",
        GIT_ALLOW_PROTOCOL="https:ssh",
        GIT_LFS_SKIP_SMUDGE="1",
    )
    if git.credentials is None:
        return result
    if (git.credentials / CA).exists():
        result["GIT_SSL_CAINFO"] = str(git.credentials / CA)
    if git.is_https:
        result["RAILHEAD_USERNAME"] = (_read(git.credentials, USERNAME) or ANY_USERNAME).strip()
        result["RAILHEAD_PASSWORD"] = (_read(git.credentials, PASSWORD) or "").strip()
    else:
        result["GIT_SSH_COMMAND"] = build_ssh_command(git.credentials, home=git.home)
    return result


def _read(folder: Path, key: str) -> Optional[str]:
    try:
        return (folder / key).read_text()
    except FileNotFoundError:
        return None


def check_credentials(folder: Path, *, repository: str, secret: str) -> None:
    """Raises JobRefused for a Secret without what the repository's protocol needs, Unreachable if there is none yet."""
    is_https = repository.startswith("https://")
    wanted = (PASSWORD, CA) if is_https else (PRIVATE_KEY,)
    if any((folder / key).exists() for key in wanted):
        return
    if not folder.exists() or not any(folder.iterdir()):
        raise Unreachable("SecretNotFound", f"{FIELD}.secretName: there is no Secret {secret}; create it")
    needs = "password (with username) or ca.crt" if is_https else PRIVATE_KEY
    raise JobRefused("SecretNotUsable", f"{FIELD}.secretName: Secret {secret} has no {needs} for {repository}")


def build_ssh_command(folder: Path, *, home: Path) -> str:
    """Returns GIT_SSH_COMMAND. ssh rejects a key that others can read, and Secrets are mounted group-readable."""
    key = home / "key"
    text = _read(folder, PRIVATE_KEY) or ""
    with open(os.open(key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        # Without a trailing newline ssh does not accept it as a key.
        file.write(text.rstrip("\n") + "\n")
    known = folder / KNOWN_HOSTS
    # Without known_hosts this trusts the server's host key, unless the image's own list has one for it.
    if known.exists():
        checked = "yes"
        hosts = known
    else:
        checked = "accept-new"
        hosts = home / KNOWN_HOSTS
    options = {
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": "30",
        "ServerAliveInterval": "15",
        "StrictHostKeyChecking": checked,
        "UserKnownHostsFile": str(hosts),
    }
    arguments = ["ssh", "-F", "/dev/null", "-i", str(key)]
    for name, value in options.items():
        arguments += ["-o", f"{name}={value}"]
    return " ".join(shlex.quote(word) for word in arguments)
