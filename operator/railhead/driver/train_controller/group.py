"""The current worker group: written by the callback, read by the failure policy and the scaling policy.

All of them run in Ray Train's controller actor, one process, where nothing else connects them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, Optional

from railhead.driver.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Process:
    """A rank's; `node`: Ray's id of its node; `pod`: its pod's name, which is its hostname."""

    node: str
    pid: int
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
        repeated_name: of the last checkpoint that was reported under the name of a kept one; empty if there was none.
        trained: the nodes, by Ray's ids, from which a report came.
    """

    worker_group: Any = None
    commits: int = 0
    reports: int = 0
    reports_before_end: Optional[int] = None
    folder: Optional[RunFolder] = None
    repeated_name: str = ""
    trained: set[str] = field(default_factory=set)
    _processes: dict[int, Process] = field(default_factory=dict)

    def read_processes(self) -> dict[int, Process]:
        """By rank. Ray may have replaced workers since the start; the last known after a shutdown."""
        if self.worker_group is not None:
            with contextlib.suppress(ValueError):  # it is not active
                found = [worker.metadata for worker in self.worker_group.get_workers()]
                self._processes = {
                    rank: Process(each.node_id, each.pid, each.hostname) for rank, each in enumerate(found)
                }
        return self._processes

    def note_report(self) -> None:
        """All ranks have reported, so they train."""
        self.trained.update(process.node for process in self.read_processes().values())

    def has_trained(self, rank: int) -> bool:
        """Whether a rank of this fit() has trained on its node."""
        process = self._processes.get(rank)
        return process is not None and process.node in self.trained


CURRENT = Group()
