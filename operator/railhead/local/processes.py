"""Starts and ends processes by pid. A pid is trusted only with its start time.

Every process of a session carries the session's marker in its environment, so that even
daemonised ones can be found and ended, and nothing else is. A process that renames itself
(Ray's agents do) overwrites the environment that the kernel shows: such processes are
identified by their private working folder, and by their session leader.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

MARKER = "RAILHEAD_LOCAL_SESSION"
PR_SET_PDEATHSIG = 1
ROUNDS = 20
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Identity:
    """Identifies one process forever: a reused pid has another start time.

    Attributes:
        started: seconds from the machine's boot to the process's start, whatever the clock was set to since.
    """

    pid: int
    started: float


def identify(pid: int) -> Identity | None:
    """Returns the identity of a running process; None when there is none (a zombie counts as none)."""
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return Identity(pid, round(process.create_time() - psutil.boot_time(), 2))
    except psutil.NoSuchProcess:
        return None


def is_alive(identity: Identity) -> bool:
    """Returns whether it still runs."""
    return identify(identity.pid) == identity


def die_with_parent(sig: int = signal.SIGKILL) -> None:
    """Makes the kernel send the signal when the parent's thread ends. Call it in a child before exec."""
    _LIBC.prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0)


def outlive_parent() -> None:
    """Cancels `die_with_parent`. Call it in the child."""
    _LIBC.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a process in its own session, with its output in a file, that ends when this process ends."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def python_command(module: str, options: Mapping[str, object]) -> list[str]:
    """Returns `python -m module --option value ...`; `module` may include a subcommand."""
    # -P: modules in the user's folder do not shadow ours.
    command = [sys.executable, "-P", "-m", *module.split()]
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    return command


def try_lock(file: IO[str]) -> bool:
    """Returns whether this process has locked the file, until it closes the file or ends, however that happens."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_end(log: Path) -> str:
    """Returns the end of a log, for a message."""
    if log.exists():
        return log.read_text(errors="replace")[-1500:].strip()
    return "(no log)"


def end_child(child: subprocess.Popen[bytes], *, grace_seconds: float) -> None:
    """Sends SIGTERM, then SIGKILL after the grace period; without one, only SIGKILL."""
    if grace_seconds > 0:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_seconds)
    child.kill()
    child.wait()


def end(identity: Identity, *, grace_seconds: float) -> None:
    """Ends a process that need not be a child: sends SIGTERM, then SIGKILL after the grace period; without one, only
    SIGKILL.

    A child of this process that ends meanwhile is reaped here, so that its Popen no longer learns its exit code.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        # psutil does not signal it once another process has its pid.
        process = psutil.Process(identity.pid)
        if not is_alive(identity):
            return
        if grace_seconds > 0:
            process.terminate()
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(grace_seconds)
                return
        process.kill()


def marked(marker: str, value: str, *, folder: Path | None = None) -> list[Identity]:
    """Returns all processes of this user that belong to the marker, except this one.

    Args:
        folder: a private working folder, to find the processes that hide their environment.
    """
    others = [process for process in psutil.process_iter() if process.pid != os.getpid()]
    direct = {process.pid for process in others if _belongs(process, marker, value, folder)}
    sessions = {_session_of(pid) for pid in direct} - {0, os.getsid(0)}
    pids = [process.pid for process in others]
    found = (identify(pid) for pid in pids if pid in direct or _session_of(pid) in sessions)
    return [identity for identity in found if identity is not None]


def _belongs(process: psutil.Process, marker: str, value: str, folder: Path | None) -> bool:
    """Returns whether it carries the mark or works below the folder."""
    # It has ended, or is another user's.
    with contextlib.suppress(psutil.Error):
        if process.environ().get(marker) == value:
            return True
    with contextlib.suppress(psutil.Error):
        return folder is not None and Path(process.cwd()).is_relative_to(folder)
    return False


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def end_marked(marker: str, value: str, *, folder: Path | None = None) -> int:
    """Kills every process that belongs to the marker, including those forked meanwhile; returns how many."""
    ended: set[Identity] = set()
    for _ in range(ROUNDS):
        found = marked(marker, value, folder=folder)
        if not found:
            break
        ended.update(found)
        for identity in found:
            end(identity, grace_seconds=0)
        time.sleep(0.02)
    return len(ended)
