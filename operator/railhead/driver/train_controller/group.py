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
    """A rank's; `node`: Ray's id of its node."""

    node: str
    pid: int


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
    """

    worker_group: Any = None
    commits: int = 0
    reports: int = 0
    reports_before_end: Optional[int] = None
    folder: Optional[RunFolder] = None
    repeated_name: str = ""
    _processes: dict[int, Process] = field(default_factory=dict)

    def read_processes(self) -> dict[int, Process]:
        """By rank. Ray may have replaced workers since the start; the last known after a shutdown."""
        if self.worker_group is not None:
            with contextlib.suppress(ValueError):  # it is not active
                found = [worker.metadata for worker in self.worker_group.get_workers()]
                self._processes = {rank: Process(each.node_id, each.pid) for rank, each in enumerate(found)}
        return self._processes


CURRENT = Group()
