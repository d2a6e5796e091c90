"""The current worker group: written by the callback, read by the failure policy and the scaling policy.

All of them run in Ray Train's controller actor, one process, where nothing else connects them.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from railhead.driver.storage.run_folder import RunFolder

_Start = Callable[[Any, Any], None]
_TASK = re.compile(r"\(pid=(\d+), ip=([^,)\s]+)")


def freed_on_error(after_worker_group_start: _Start) -> _Start:
    """For a callback that may end the start of a group: Ray would forget the group and keep its placement group.

    Ray frees what a group holds only if its start fails before the group has a state.
    """

    @functools.wraps(after_worker_group_start)
    def start(self: Any, worker_group: Any) -> None:
        try:
            after_worker_group_start(self, worker_group)
        except Exception:
            worker_group._worker_group_state = None
            raise

    return start


@dataclass(frozen=True)
class Process:
    """A rank's; `node`: Ray's id of its node; `address`, `pod`: of its pod, whose name is its hostname."""

    node: str
    pid: int
    address: str = ""
    pod: str = ""


@dataclass
class Group:
    """What connects them.

    Attributes:
        worker_group: Ray's.
        commits: checkpoints committed in this fit().
        reports: how many of this group have arrived.
        reports_before_end: how many of this group had begun when the ranks were notified of the end; None before that.
        folder: the run's.
        check_fence: raises when the run belongs to another; with `folder`.
        repeated_name: of the last checkpoint that was reported under the name of a kept one; empty if there was none.
        trained: the nodes, by Ray's ids, from which a report came.
    """

    worker_group: Any = None
    commits: int = 0
    reports: int = 0
    reports_before_end: Optional[int] = None
    folder: Optional[RunFolder] = None
    check_fence: Callable[[], None] = lambda: None
    repeated_name: str = ""
    trained: set[str] = field(default_factory=set)
    _processes: dict[int, Process] = field(default_factory=dict)

    def read_processes(self) -> dict[int, Process]:
        """By rank. Ray may have replaced workers since the start; the last known after a shutdown."""
        if self.worker_group is not None:
            with contextlib.suppress(ValueError):  # it is not active
                self.note_workers(self.worker_group.get_workers())
        return self._processes

    def note_workers(self, workers: Iterable[Any]) -> None:
        """In the order of their ranks; they may not train yet."""
        found = [worker.metadata for worker in workers]
        self._processes = {
            rank: Process(each.node_id, each.pid, each.node_ip, each.hostname) for rank, each in enumerate(found)
        }

    def note_report(self) -> None:
        """All ranks have reported, so they train."""
        self.reports += 1
        self.trained.update(process.node for process in self.read_processes().values())

    def find_rank(self, text: str) -> int:
        """Of the process in which Ray's tasks of this traceback ran; -1 if none is a rank's."""
        ranks = {(each.pid, each.address): rank for rank, each in self._processes.items()}
        found = (ranks.get((int(pid), address), -1) for pid, address in _TASK.findall(text))
        return next((rank for rank in found if rank >= 0), -1)

    def has_trained(self, rank: int) -> bool:
        """Whether a rank of this fit() has trained on its node."""
        process = self._processes.get(rank)
        return process is not None and process.node in self.trained


CURRENT = Group()
