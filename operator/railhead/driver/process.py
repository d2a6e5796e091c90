"""Starts Ray's command as a child that dies with us.

Each child has a session of its own, so that a signal meant for the entry point does not
reach Ray, and the kernel kills it when the entry point is gone, whatever the cause. Ray's
daemons die with the child in the same way (`ray start --block`).
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
from pathlib import Path
from typing import Mapping

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # before the fork: loading a library in the child could deadlock


def start_child(command: list[str], *, environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """To be called by the main thread: the kernel watches the thread that made the child."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_child(child: subprocess.Popen[bytes]) -> None:
    """At once: Ray's own way out of a head takes seconds and saves nothing."""
    if child.poll() is None:
        child.kill()
        child.wait()


def read_end(log: Path, *, lines: int = 20) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
