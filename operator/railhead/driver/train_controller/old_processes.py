"""Before a restarted worker group trains, the processes of earlier ones are gone, and their GPU memory is free.

Ray kills a group's processes and starts the next one in the same pods without waiting for their end,
and a process that a rank has started, such as a DataLoader's, may hold its GPU for longer. Ray puts each
rank and what it starts into a process group of its own (see `ray_node`), by which they are found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any, Callable

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from railhead.contract import environment as e
from railhead.contract.failure import Failure, FailureClass
from railhead.driver.errors import AttemptFailed
from railhead.driver.train_controller.failure import PROCESS_NOT_ENDING
from railhead.driver.train_controller.group import freed_on_error
from railhead.driver.train_controller.workers import call_ranks

PATIENCE = 60.0  # seconds for a killed process to end: freeing a full GPU's memory takes some
PAUSE = 0.05
ANSWER_TIMEOUT = PATIENCE + 30.0


class OldProcessesCallback(WorkerGroupCallback):  # type: ignore[misc]
    """Gives up the pod in which a process of the previous group does not end: it is not usable any more."""

    def __init__(self) -> None:
        self._old: dict[str, tuple[int, ...]] = {}  # Ray's node id -> process ids of the last group that was there

    @freed_on_error
    def after_worker_group_start(self, worker_group: Any) -> None:
        """Raises AttemptFailed. Ray's error for a worker that dies meanwhile appears at the next poll."""
        rank_of_node = {worker.metadata.node_id: rank for rank, worker in enumerate(worker_group.get_workers())}
        old = {rank: (self._old[node],) for node, rank in rank_of_node.items() if node in self._old}
        self._old.update(list_processes(worker_group))
        if not old:
            return
        answers = call_ranks(worker_group, old, end_processes, each=old, timeout=ANSWER_TIMEOUT)
        for rank, answer in answers.items():
            if answer.value:
                pod = worker_group.get_workers()[rank].metadata.hostname
                raise AttemptFailed(Failure(FailureClass.HARDWARE, PROCESS_NOT_ENDING, answer.value, suspect_pod=pod))


def list_processes(worker_group: Any) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for worker in worker_group.get_workers():
        node = worker.metadata.node_id
        found[node] = (*found.get(node, ()), worker.metadata.pid)
    return found


def end_processes(
    pids: tuple[int, ...],
    *,
    patience: float = PATIENCE,
    sleep: Callable[[float], None] = time.sleep,
    proc: Path = Path("/proc"),
) -> str:
    """On a worker: kills what is left of these process groups. Empty once all are gone, else what remains."""
    deadline = time.monotonic() + patience
    left = find_left(pids, proc)
    while left and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        sleep(PAUSE)
        left = find_left(pids, proc)
    if not left:
        return ""
    pod = os.environ.get(e.POD_NAME, "of another node")
    return (
        f"pod {pod}: process {', '.join(map(str, left[:8]))} of the previous worker group has not ended "
        f"{patience:.0f} s after SIGKILL and may hold its GPU; check the node's driver"
    )


def find_left(pids: tuple[int, ...], proc: Path) -> list[int]:
    """The processes with one of these ids, or in one of these process groups; without zombies, which hold nothing."""
    left = []
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The command's name, in parentheses, may contain anything.
            state, _, group = (proc / entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if state not in "ZX" and (int(entry) in pids or int(group) in pids):
                left.append(int(entry))
    return left
