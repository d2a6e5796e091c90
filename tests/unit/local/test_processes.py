"""Processes are found by pid and start time, by mark, or by private folder, and terminated."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from railhead.local.processes import MARKER, Identity, end, end_marked, identify, is_alive, marked, spawn

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)",
]

# Daemonizes itself: a new session without a known parent; waits for the process in between.
DAEMON = """
import os, time
between = os.fork()
if between == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.waitpid(between, 0)
"""
# Its child has no environment.
PARENT_OF_HIDER = f"""
import subprocess, time
subprocess.Popen({SLEEP!r}, env={{}})
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark of this test only; processes that still have it at the end are killed."""
    value = f"test-{uuid.uuid4()}"
    yield value
    end_marked(MARKER, value)


def start(command: list[str], *, mark: str, folder: Path, **options: object) -> subprocess.Popen[bytes]:
    return spawn(command, log=folder / "log", env={**os.environ, MARKER: mark}, **options)  # type: ignore[arg-type]


def test_identity_holds_while_the_process_lives(mark: str, tmp_path: Path) -> None:
    process = start(SLEEP, mark=mark, folder=tmp_path)
    identity = identify(process.pid)
    assert identity is not None
    assert is_alive(identity)
    process.kill()
    process.wait()
    assert not is_alive(identity)


def test_an_identity_does_not_depend_on_the_clock(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's time of the boot moves when the clock is set, and psutil's start times with it."""
    process = start(SLEEP, mark=mark, folder=tmp_path)
    identity = identify(process.pid)
    assert identity is not None
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: 1000.0)
    assert is_alive(identity)
    process.kill()
    process.wait()


def test_zombie_counts_as_ended(mark: str, tmp_path: Path) -> None:
    process = start([sys.executable, "-c", ""], mark=mark, folder=tmp_path)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert identify(process.pid) is None
    process.wait()


def test_reused_pid_is_not_killed(mark: str, tmp_path: Path) -> None:
    process = start(SLEEP, mark=mark, folder=tmp_path)
    end(Identity(process.pid, 1.0), grace_seconds=0)
    assert process.poll() is None
    process.kill()
    process.wait()


def test_end_kills_a_process_that_ignores_sigterm(mark: str, tmp_path: Path) -> None:
    process = subprocess.Popen(STUBBORN, stdout=subprocess.PIPE, env={**os.environ, MARKER: mark})
    assert process.stdout is not None
    process.stdout.readline()
    identity = identify(process.pid)
    assert identity is not None
    end(identity, grace_seconds=0.1)
    assert process.wait() == -9
    process.stdout.close()


def test_marked_finds_daemons(mark: str, tmp_path: Path) -> None:
    process = start([sys.executable, "-c", DAEMON], mark=mark, folder=tmp_path)
    process.wait()
    assert len(marked(MARKER, mark)) == 1
    assert end_marked(MARKER, mark) == 1
    assert marked(MARKER, mark) == []


def test_finds_a_process_without_environment_by_its_folder(mark: str, tmp_path: Path) -> None:
    inner = tmp_path / "pod" / "1"
    inner.mkdir(parents=True)
    process = spawn(SLEEP, log=tmp_path / "log", cwd=inner, env={})
    try:
        assert marked(MARKER, mark) == []
        assert [i.pid for i in marked(MARKER, mark, folder=tmp_path / "pod")] == [process.pid]
        inner.rmdir()  # removing its folder changes nothing
        assert end_marked(MARKER, mark, folder=tmp_path / "pod") == 1
    finally:
        process.kill()
        process.wait()


def test_finds_a_process_without_environment_by_its_session(mark: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT_OF_HIDER],
        stdout=subprocess.PIPE,
        env={**os.environ, MARKER: mark},
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert len(marked(MARKER, mark)) == 2
    end_marked(MARKER, mark)
    process.wait()
    process.stdout.close()


def test_a_folder_with_the_same_prefix_is_another_folder(mark: str, tmp_path: Path) -> None:
    (tmp_path / "pod-other").mkdir()
    process = spawn(SLEEP, log=tmp_path / "log", cwd=tmp_path / "pod-other", env={})
    try:
        assert marked(MARKER, mark, folder=tmp_path / "pod") == []
    finally:
        process.kill()
        process.wait()


def test_child_dies_with_its_parent(mark: str, tmp_path: Path) -> None:
    """Even if the parent is killed and cannot clean up."""
    script = (
        "import sys, time; from pathlib import Path; from railhead.local.processes import spawn\n"
        f"spawn({SLEEP!r}, log=Path({str(tmp_path / 'child.log')!r}))\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, MARKER: mark, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    process.stdout.readline()
    child = next(i for i in marked(MARKER, mark) if i.pid != process.pid)
    pidfd = os.pidfd_open(child.pid)
    process.kill()
    process.wait()
    process.stdout.close()
    assert select.select([pidfd], [], [], 10)[0]
    os.close(pidfd)
    assert not is_alive(child)
