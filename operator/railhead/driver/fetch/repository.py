"""Fetches one commit of a git repository into a folder, with the image's git.

Runs nothing from the repository or from the image's git configuration: no hooks, no
submodules, no filters (LFS files stay pointers), no protocol but https and ssh, no prompt.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence

from railhead.driver.fetch.credentials import CA, build_helper, build_ssh_command
from railhead.driver.fetch.problem import (
    FIELD,
    UNADVERTISED,
    FetchProblem,
    classify_words,
    commit_not_found,
    configuration,
    has_any,
)

SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
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
WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # seconds between tries, when a server does not respond


@dataclass(frozen=True)
class FetchedCommit:
    """The commit to fetch. Attributes: as in spec.source.git."""

    repository: str
    revision: str
    path: str = ""


@dataclass(frozen=True)
class Git:
    """How to run git.

    Attributes:
        home: our own folder, which the training container does not see.
        credentials: the folder of the mounted Secret, or None.
        bundle: our own zipapp, which git asks for the password.
    """

    environment: Mapping[str, str]
    home: Path
    credentials: Optional[Path]
    bundle: str
    protocols: str = "https:ssh"
    waits: Sequence[float] = WAITS
    log: Callable[[str], None] = field(default=print)


def fetch_commit(git: Git, commit: FetchedCommit, folder: Path) -> None:
    """Checks the commit out into `folder`, which it creates from scratch. Raises FetchProblem."""
    if shutil.which("git", path=git.environment.get("PATH")) is None:
        raise configuration("GitMissing", f"{FIELD}.image: the image has no git; name one with git and python3")
    for wait in (*git.waits, None):
        try:
            _try(git, commit, folder)
            return
        except FetchProblem as problem:
            if problem.is_lasting or wait is None:
                raise
            git.log(f"{problem}; retrying in {wait:.0f} s")
            time.sleep(wait)


def _try(git: Git, commit: FetchedCommit, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)  # created by us: git does not trust another user's folder
    sha256 = ["--object-format=sha256"] if len(commit.revision) == 64 else []
    _run(git, commit, folder, "init", "--quiet", "--template=", *sha256)
    _fetch(git, commit, folder)
    _run(git, commit, folder, "checkout", "--quiet", "--detach", f"{commit.revision}^{{commit}}", "--")
    if not (folder / commit.path).is_dir():
        message = f"{FIELD}.path: commit {commit.revision} of {commit.repository} has no folder {commit.path}"
        raise configuration("PathNotFound", message)


def _fetch(git: Git, commit: FetchedCommit, folder: Path) -> None:
    """The one commit; or all branches and tags, from a server that does not serve commits by hash."""
    options = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    output = _try_run(git, commit, folder, *options, "--depth=1", "--", commit.repository, commit.revision)
    if output is None:
        return
    if not has_any(output, UNADVERTISED):
        raise classify_words(output, repository=commit.repository, revision=commit.revision)
    git.log("the server does not serve commits by hash; fetching all branches and tags")
    everything = ("+refs/heads/*:refs/remotes/source/*", "+refs/tags/*:refs/tags/*")
    _run(git, commit, folder, *options, "--", commit.repository, *everything)
    if _try_run(git, commit, folder, "cat-file", "-e", f"{commit.revision}^{{commit}}") is not None:
        raise commit_not_found(commit.repository, commit.revision, "no branch or tag leads to it")


def _run(git: Git, commit: FetchedCommit, folder: Path, *arguments: str) -> None:
    output = _try_run(git, commit, folder, *arguments)
    if output is not None:
        raise classify_words(output, repository=commit.repository, revision=commit.revision)


def _try_run(git: Git, commit: FetchedCommit, folder: Path, *arguments: str) -> Optional[str]:
    """None when git succeeds, else its standard error."""
    done = subprocess.run(
        [*build_command(git, commit), *arguments],
        cwd=folder,
        env=build_environment(git, commit),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if done.returncode == 0:
        return None
    return done.stderr.decode(errors="replace") or f"fatal: git exited with code {done.returncode}"


def build_command(git: Git, commit: FetchedCommit) -> list[str]:
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    if git.credentials is None:
        return ["git", *settings]
    helper = build_helper(git.credentials, repository=commit.repository, bundle=git.bundle)
    return ["git", *settings, *helper]


def build_environment(git: Git, commit: FetchedCommit) -> dict[str, str]:
    result = {name: value for name, value in git.environment.items() if name in PASSED_ON}
    result.update(
        HOME=str(git.home),
        XDG_CONFIG_HOME=str(git.home),
        LC_ALL="C",  # we parse its messages
        GIT_CONFIG_NOSYSTEM="1",
        GIT_CONFIG_GLOBAL="/dev/null",
        GIT_TERMINAL_PROMPT="0",
        GIT_ALLOW_PROTOCOL=git.protocols,
        GIT_LFS_SKIP_SMUDGE="1",
    )
    if git.credentials is None:
        return result
    if (git.credentials / CA).exists():
        result["GIT_SSL_CAINFO"] = str(git.credentials / CA)
    if not commit.repository.startswith("https://"):
        result["GIT_SSH_COMMAND"] = build_ssh_command(git.credentials, home=git.home)
    return result
