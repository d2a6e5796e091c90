"""Fetching a commit with the real git, from a real git server that requires a password."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import environment as e
from railhead.contract.failure import FailureClass
from railhead.contract.job_input import FILE, GitInput, JobInput, ScalingInput
from railhead.contract.outcome import Outcome
from railhead.driver.messages.attempt_errors import AttemptFailed, JobRefused, Unreachable
from railhead.driver.pod.fetch_source import (
    Git,
    build_command,
    build_environment,
    build_ssh_command,
    check_credentials,
    explain_output,
    fetch_commit,
)
from railhead.resources.bundle import build_bundle
from tests.git_server import GitServer, make_repository, run_git

PASSWORD = "pass word'$(id)"
UNKNOWN = "0" * 40
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@dataclass
class Place:
    """A server with the repository `code`, and a pod's folders."""

    server: GitServer
    commits: list[str]
    git: Git
    folder: Path

    def fetch(self, **changes: Any) -> None:
        fetch_commit(replace(self.git, **changes), self.folder)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("bundle") / "railhead.pyz"
    file.write_bytes(build_bundle())
    return str(file)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    versions = {"train.py": "first", "pkg/model.py": "m", "big.bin": LFS, ".gitattributes": "*.bin filter=lfs\n"}
    commits = make_repository(tmp_path / "root" / "code", versions, {"train.py": "second"})
    server = GitServer(tmp_path / "root", tmp_path / "tls")
    server.password = PASSWORD
    secret, home = tmp_path / "secret", tmp_path / "home"
    secret.mkdir()
    home.mkdir()
    (secret / "username").write_text("robot\n")
    (secret / "password").write_text(PASSWORD + "\n")
    (secret / "ca.crt").write_text(server.ca.read_text())
    git = Git(
        server.url("code"),
        commits[0],
        "",
        dict(os.environ),
        home=home,
        credentials=secret,
        patience_seconds=0.0,
    )
    yield Place(server, commits, git, tmp_path / "source" / "repository")
    server.stop()


def test_checks_out_a_commit_that_is_no_branch_head(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    place.fetch(path="pkg")
    assert (place.folder / "train.py").read_text() == "first"
    assert run_git(place.folder, "rev-parse", "HEAD") == place.commits[0]
    assert run_git(place.folder, "rev-list", "--all", "--count") == "1", "without its history"
    assert place.server.users == {"robot"}
    assert "pass word" not in "".join([*capfd.readouterr(), *build_command(place.git)])
    kept = [p for p in (*place.folder.rglob("*"), *place.git.home.rglob("*")) if p.is_file()]
    assert not [p for p in kept if b"pass word" in p.read_bytes()]


def test_lfs_files_stay_pointers(place: Place) -> None:
    place.fetch()
    assert (place.folder / "big.bin").read_text() == LFS


def test_fetches_everything_if_the_server_serves_no_commit_by_hash(place: Place) -> None:
    place.server.is_old = True
    place.fetch()
    assert (place.folder / "train.py").read_text() == "first"
    with pytest.raises(JobRefused, match="has no commit 0000") as caught:
        place.fetch(revision=UNKNOWN)
    assert caught.value.failure.reason == "CommitNotFound"


def test_fetches_from_a_sha256_repository(place: Place) -> None:
    root = place.server.root
    [commit] = make_repository(root / "long", {"train.py": "long"}, options=("--object-format=sha256",))
    assert len(commit) == 64
    place.fetch(repository=place.server.url("long"), revision=commit)
    assert (place.folder / "train.py").read_text() == "long"
    with pytest.raises(Unreachable, match="mismatched algorithms"):
        place.fetch(repository=place.server.url("long"))


def test_replaces_an_existing_checkout(place: Place) -> None:
    """A restarted kubelet may run an init container again."""
    place.fetch()
    (place.folder / "train.py").write_text("changed")
    place.fetch()
    assert (place.folder / "train.py").read_text() == "first"


def test_ignores_submodules_hooks_and_the_images_git_config(place: Place, tmp_path: Path) -> None:
    root = place.server.root
    [inner] = make_repository(root / "inner", {"inner.py": ""})
    run_git(root / "code", "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(root / "inner"), "sub")
    run_git(root / "code", "commit", "--quiet", "--message", "with a submodule")
    commit = run_git(root / "code", "rev-parse", "HEAD")
    hooks, trace = tmp_path / "hooks", tmp_path / "trace"
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {trace}\n")
        (hooks / name).chmod(0o755)
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[core]\n\thooksPath = {hooks}\n[submodule]\n\trecurse = true\n")
    others = {"GIT_CONFIG_GLOBAL": str(settings), "GIT_CONFIG_SYSTEM": str(settings), "GIT_DIR": "/nowhere"}
    place.fetch(environment={**place.git.environment, **others}, revision=commit)
    assert list((place.folder / "sub").iterdir()) == []
    assert not trace.exists()
    assert inner != commit


def test_retries_a_server_that_fails_temporarily(place: Place) -> None:
    place.server.broken = 2
    place.fetch(patience_seconds=30.0)
    assert (place.folder / "train.py").read_text() == "first"


@pytest.mark.parametrize(
    ("case", "outcome", "reason", "expected"),
    [
        ("wrong password", "Infrastructure", "SourceNotFetched", "spec.source.git: https:.*: fatal: Auth"),
        ("no password", "Infrastructure", "SourceNotFetched", "secretName or image: fatal: could not read Username"),
        ("untrusted", "Infrastructure", "SourceNotFetched", "[Cc]ertificate"),
        ("no commit", "Configuration", "CommitNotFound", f"spec.source.git.revision: https://127.0.0.1:.*{UNKNOWN}"),
        ("no folder", "Configuration", "PathNotFound", "spec.source.git.path: commit .* has no folder nowhere"),
        ("a file", "Configuration", "PathNotFound", "has no folder train.py"),
        ("no repository", "Infrastructure", "SourceNotFetched", "fatal: repository .* not found"),
        ("no git", "Configuration", "GitMissing", "spec.source.git.image: the image has no git"),
        ("no server", "Infrastructure", "SourceNotFetched", "cannot be fetched; .*: fatal: .*(refused|connect)"),
        ("no host", "Infrastructure", "SourceNotFetched", "cannot be fetched; .*: fatal: .*[Rr]esolv"),
        ("server fails", "Infrastructure", "SourceNotFetched", "cannot be fetched; .*503"),
        ("program", "Infrastructure", "SourceNotFetched", "transport 'ext' not allowed"),
    ],
)
def test_classifies_and_reports_problems(place: Place, case: str, outcome: str, reason: str, expected: str) -> None:
    changes: dict[str, Any] = {
        "no commit": {"revision": UNKNOWN},
        "no folder": {"path": "nowhere"},
        "a file": {"path": "train.py"},
        "no repository": {"repository": place.server.url("nothing")},
        "no server": {"repository": "https://127.0.0.1:1/code"},
        "no host": {"repository": "https://git.invalid/code"},
        "program": {"repository": "ext::sh -c true"},
    }.get(case, {})
    assert place.git.credentials is not None
    git = place.git
    if case == "wrong password":
        (place.git.credentials / "password").write_text("guess")
    elif case == "no password":
        (place.git.credentials / "password").unlink()
    elif case == "untrusted":
        git = replace(git, credentials=None)
    elif case == "no git":
        git = replace(git, environment={"PATH": "/nowhere"})
    elif case == "server fails":
        place.server.broken = 9
    with pytest.raises(AttemptFailed, match=expected) as caught:
        fetch_commit(replace(git, **changes), place.folder)
    assert (caught.value.failure.class_, caught.value.failure.reason) == (outcome, reason)
    assert "guess" not in str(caught.value)


@pytest.mark.parametrize("output", ["", "hint: only advice"])
def test_says_so_if_git_prints_nothing(output: str) -> None:
    assert explain_output(output, repository="git@x:code").failure.message.endswith(": git printed nothing")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "ssh-privatekey").write_text("KEY")
    (folder / "ssh-privatekey").chmod(0o440)
    return folder


@pytest.mark.parametrize("is_known", [True, False])
def test_ssh_uses_only_the_key_and_hosts_of_the_secret(secret: Path, tmp_path: Path, is_known: bool) -> None:
    if is_known:
        (secret / "known_hosts").write_text("host ssh-ed25519 AAAA")
    command = build_ssh_command(secret, home=tmp_path)
    key = tmp_path / "key"
    assert key.read_text() == "KEY\n"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    hosts = secret / "known_hosts" if is_known else tmp_path / "known_hosts"
    assert f"UserKnownHostsFile={hosts}" in command
    assert f"StrictHostKeyChecking={'yes' if is_known else 'accept-new'}" in command
    assert command.startswith(f"ssh -F /dev/null -i {key} ")
    assert "BatchMode=yes" in command and "IdentitiesOnly=yes" in command


def test_git_uses_that_ssh_without_a_password(secret: Path, tmp_path: Path) -> None:
    variables = {"PATH": "/bin", "HTTPS_PROXY": "p", "SECRET": "s"}
    git = Git("git@host:code.git", UNKNOWN, "", variables, home=tmp_path, credentials=secret)
    assert build_environment(git) == {
        "PATH": "/bin",
        "HTTPS_PROXY": "p",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:ssh",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_SSH_COMMAND": build_ssh_command(secret, home=tmp_path),
    }
    assert not [word for word in build_command(git) if word.startswith("credential.https:")]


def test_reports_a_missing_secret_or_one_of_the_wrong_kind(secret: Path, tmp_path: Path) -> None:
    with pytest.raises(JobRefused, match=r"Secret keys has no password \(with username\) or ca.crt for"):
        check_credentials(secret, repository="https://host/code", secret="keys")
    check_credentials(secret, repository="git@host:code", secret="keys")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unreachable, match="there is no Secret keys; create it"):
        check_credentials(tmp_path / "empty", repository="git@host:code", secret="keys")


def run_container(place: Place, tmp_path: Path, bundle: str, **git: Any) -> tuple[int, str, Outcome | None]:
    """As a kubelet runs the init container: exit code, log, termination message."""
    source = replace(GitInput(place.server.url("code"), place.commits[1], secret_name="s"), **git)
    values: dict[str, Any] = {"namespace": "n", "name": "j", "uid": "u", "run_name": "r", "framework": "Torch"}
    job = JobInput(**values, train_func="m:f", scaling=ScalingInput(1), worker_pods=1, git=source)
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / FILE).write_text(job.to_json())
    end = tmp_path / "end"
    environment = {
        "PATH": os.environ["PATH"],
        e.INPUT: str(tmp_path / "input"),
        e.SOURCE: str(tmp_path / "source"),
        e.TEMP: str(place.git.home),
        e.BUNDLE: bundle,
        e.GIT_CREDENTIALS: str(place.git.credentials),
        e.TERMINATION_MESSAGE: str(end),
    }
    done = subprocess.run([sys.executable, "-I", bundle, "fetch"], env=environment, capture_output=True, text=True)
    message = json.loads(end.read_text()) if end.exists() else None
    return done.returncode, done.stdout + done.stderr, Outcome(**message) if message else None


def test_the_init_container_fetches_and_exits(place: Place, tmp_path: Path, bundle: str) -> None:
    code, log, outcome = run_container(place, tmp_path, bundle)
    assert (code, outcome) == (0, None), log
    assert (place.folder / "train.py").read_text() == "second"
    assert place.server.url("code") in log and "pass word" not in log


def test_the_init_containers_termination_message_has_the_reason(place: Place, tmp_path: Path, bundle: str) -> None:
    code, log, outcome = run_container(place, tmp_path, bundle, revision=UNKNOWN)
    assert code == FailureClass("Configuration").exit_code
    assert outcome is not None
    assert (outcome.outcome, outcome.reason) == ("Configuration", "CommitNotFound")
    assert UNKNOWN in outcome.message and outcome.message in log


def test_reports_a_pod_that_cannot_write_as_retryable(place: Place, tmp_path: Path, bundle: str) -> None:
    assert place.git.credentials is not None
    (place.git.credentials / "ssh-privatekey").write_text("KEY")
    place.git.home.rmdir()
    code, log, outcome = run_container(place, tmp_path, bundle, repository="git@host:code")
    assert code == FailureClass("Infrastructure").exit_code
    assert outcome is not None
    assert outcome.message.startswith("spec.source.git: FileNotFoundError: ")
    assert "Traceback" not in log


def test_reports_a_password_that_is_no_text_as_retryable(place: Place, tmp_path: Path, bundle: str) -> None:
    assert place.git.credentials is not None
    (place.git.credentials / "password").write_bytes(b"\xff")
    code, log, outcome = run_container(place, tmp_path, bundle)
    assert code == FailureClass("Infrastructure").exit_code
    assert outcome is not None and outcome.reason == "SourceNotFetched"
    assert "Traceback" not in log
