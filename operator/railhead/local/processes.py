"""Starts and ends processes by pid. A pid is trusted only with its start time.

Every process of a session carries the session's marker in its environment, so that even
daemonised ones can be found and ended, and nothing else is. A process that renames itself
(Ray's agents do) overwrites the environment that the kernel shows: such processes are
identified by their private working folder, and by their session leader.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARKER = "RAILHEAD_LOCAL_SESSION"
PR_SET_PDEATHSIG = 1
ROUNDS = 20
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Identity:
    """Identifies one process forever: a reused pid has another start time."""

    pid: int
    started: str


def identify(pid: int) -> Identity | None:
    """The identity of a running process; None when there is none (a zombie counts as none)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else Identity(pid, fields[19])


def is_alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def die_with_parent(sig: int = signal.SIGKILL) -> None:
    """Call it in a child before exec: the kernel sends the signal when the parent's thread ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0)


def outlive_parent() -> None:
    """Call it in the child: cancels `die_with_parent`."""
    _LIBC.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    parent_death_signal: int = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """A process in its own session, with its output in a file, that ends when this process ends."""
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
            preexec_fn=lambda: die_with_parent(parent_death_signal),
        )


def python_command(module: str, options: Mapping[str, object]) -> list[str]:
    """`python -m module --option value ...`; `module` may include a subcommand."""
    command = [sys.executable, "-P", "-m", *module.split()]  # -P: modules in the user's folder do not shadow ours
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    return command


def end(identities: Sequence[Identity], *, grace_seconds: float = 10.0) -> None:
    """SIGTERM to all, SIGKILL to those still alive after the grace period; without one, only SIGKILL."""
    for identity in identities if grace_seconds > 0 else ():
        _send(identity, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while time.monotonic() < deadline and any(is_alive(i) for i in identities):
        time.sleep(0.05)
    for identity in identities:
        _send(identity, signal.SIGKILL)


def marked(marker: str, value: str, *, folder: Path | None = None) -> list[Identity]:
    """All processes of this user that belong to the marker, except this one.

    Args:
        folder: a private working folder, to find the processes that hide their environment.
    """
    wanted = f"{marker}={value}".encode()
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]
    direct = {pid for pid in pids if _has_mark(pid, wanted) or (folder is not None and _works_in(pid, folder))}
    sessions = {_session_of(pid) for pid in direct} - {0, os.getsid(0)}
    found = (identify(pid) for pid in pids if pid in direct or _session_of(pid) in sessions)
    return [identity for identity in found if identity is not None]


def _has_mark(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd").removesuffix(" (deleted)")).is_relative_to(folder)
    except OSError:
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
        end(found, grace_seconds=0)
        time.sleep(0.02)
    return len(ended)


def _send(identity: Identity, sig: int) -> None:
    if is_alive(identity):
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, sig)
