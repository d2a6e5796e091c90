"""Starts, finds and ends the processes of a pod.

Each child has its own session, so that a signal meant for the entry point does not
reach Ray, and the kernel kills it when the entry point dies, whatever the cause. Ray's
daemons die with the child in the same way (`ray start --block`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from pathlib import Path
from typing import Mapping, NamedTuple, Optional

PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
IDLE_AGENT = "idle-agent.py"  # the end of the name of its file
# By their process titles, and by their files where they have no title.
_AGENTS = (
    *("ray::DashboardAgent", "ray::RuntimeEnvAgent"),
    *("/ray/dashboard/agent.py", "/runtime_env/agent/main.py", IDLE_AGENT),
)
_LIBC = ctypes.CDLL(None)  # before the fork: loading a library in the child could deadlock


def exit_at_sigterm() -> None:
    """Lets SIGTERM end this process, which is its container's first: the kernel ignores the signal there by default."""

    def end(*_: object) -> None:
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


def start_child(command: list[str], *, environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Starts a child that ends with this process; only in the main thread, since the kernel watches that thread."""
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


def start_piped_child(command: list[str], *, environment: Mapping[str, str], folder: str) -> subprocess.Popen[bytes]:
    """Starts a child whose output arrives through pipes. The calling thread must outlive it."""
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_until_stopped(child: subprocess.Popen[bytes]) -> Optional[int]:
    """Waits until the child exits or is stopped by a signal; returns its exit code, as Popen has it, or None."""
    # The error means that another thread has read the exit code already; Popen then knows it.
    with contextlib.suppress(ChildProcessError):
        end = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if end is not None and end.si_code == os.CLD_STOPPED:
            return None
    return child.wait()


def kill_child(child: subprocess.Popen[bytes]) -> None:
    """Kills it and all its descendants at once; does not wait for their end."""
    if child.poll() is None:
        descendants = list_descendants(child.pid, read_process_table())
        # A script that waits for a process of its own would otherwise end by itself, with code 0, as if all were well.
        child.kill()
        _kill_all(descendants)


def kill_workers(ray: subprocess.Popen[bytes]) -> None:
    """Kills all that runs in this Ray node: its actors outlive it by up to a second, in which Ray Train's
    controller would keep committing. Spares the node's own daemons, which die with us: Ray ends a
    driver whose raylet is gone at once, with Ray's own exit code."""
    if ray.poll() is None:
        found = read_process_table()
        others = [pid for pid in list_descendants(ray.pid, found) if found[pid].parent != ray.pid]
        _kill_all([pid for pid in others if not _is_agent(pid)])


def _kill_all(pids: list[int]) -> None:
    """Kills the youngest first, so that none sees its parent gone."""
    for pid in reversed(pids):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _is_agent(pid: int) -> bool:
    """Returns whether it is one of the agents without which a raylet exits."""
    try:
        command = (PROC / str(pid) / "cmdline").read_text()
    except OSError:
        return False
    return any(agent in command for agent in _AGENTS)


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kills what an exited child left running in its session."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


class ProcessStat(NamedTuple):
    """A process as the kernel describes it: its state, a letter, its parent and its process group."""

    state: str
    parent: int
    group: int


def read_process_table(proc: Path = PROC) -> dict[int, ProcessStat]:
    """Returns all visible processes by their ids."""
    found = {}
    for entry in os.listdir(proc):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):
                # The command's name, in parentheses, may contain anything.
                state, parent, group = (proc / entry / "stat").read_text().rpartition(")")[2].split()[:3]
                found[int(entry)] = ProcessStat(state, int(parent), int(group))
    return found


def list_descendants(pid: int, processes: Mapping[int, ProcessStat]) -> list[int]:
    found = [pid]
    # The list grows while it is walked, by the children of each process that is in it.
    for each in found:
        found += [child for child, stat in processes.items() if stat.parent == each]
    return found[1:]


def read_end(log: Path, *, lines: int = 20) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def describe_exit(code: int) -> str:
    """Describes the end of a process in the head pod; `code` as Popen has it."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ""
    if name == "SIGKILL":
        memory = ", as happens when the head pod runs out of memory (spec.head.resources)"
    return f"was killed by {name}{memory}"
