"""Checks a pod before training: the processes of the group before, and the storage that all pods share."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Optional

from railhead.contract import environment
from railhead.driver.container.pod_processes import read_process_table
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.storage.storage_call import is_passing

# A network file system may show a new file late, because it caches the listing of a folder for a while.
MARKER_PATIENCE_SECONDS = 6.0
MARKER_PAUSE_SECONDS = 0.5
END_PATIENCE_SECONDS = 60.0  # for a killed process to end: freeing a full GPU's memory takes some
END_PAUSE_SECONDS = 0.05


def end_processes(pids: tuple[int, ...]) -> str:
    """Kills, on a worker, what is left of these process groups. Returns an empty string, or what remains."""
    deadline = time.monotonic() + END_PATIENCE_SECONDS
    while left := list_remaining(pids):
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            break
        time.sleep(END_PAUSE_SECONDS)
    else:
        return ""
    pod = os.environ.get(environment.POD_NAME, "of another node")
    return (
        f"pod {pod}: process {', '.join(map(str, left[:8]))} of the previous worker group has not ended "
        f"{END_PATIENCE_SECONDS:.0f} s after SIGKILL and may hold its GPU; check the node's driver"
    )


def list_remaining(pids: tuple[int, ...]) -> list[int]:
    """Returns the processes with one of these ids or of these process groups, without zombies: those hold nothing."""
    found = read_process_table().items()
    return [pid for pid, stat in found if stat.state not in "ZX" and (pid in pids or stat.group in pids)]


def read_marker(path: str) -> tuple[str, str]:
    """Returns, on a worker, its pod and the problem or an empty string. Raises OSError if its mount does not work."""
    pod = os.environ.get(environment.POD_NAME, "of another node")
    deadline = time.monotonic() + MARKER_PATIENCE_SECONDS
    while (found := _explain_problem(path))[0] and time.monotonic() < deadline:
        time.sleep(MARKER_PAUSE_SECONDS)
    problem, error = found
    if error is not None and is_passing(error):
        raise OSError(error.errno, f"worker pod {pod}: {describe_exception(error)}")
    return pod, problem


def _explain_problem(path: str) -> tuple[str, Optional[OSError]]:
    try:
        if Path(path).read_text() != Path(path).name:
            return "does not see", None
    except OSError as error:
        return "does not see", error
    return "" if os.access(os.path.dirname(path), os.W_OK) else "can read but not write", None
