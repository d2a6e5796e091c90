"""The current worker group: written by the callback, read by the failure policy and the scaling policy.

All of them run in Ray Train's controller actor, one process, where nothing else connects them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, Optional

from railhead.driver.storage.run_folder import RunFolder


@dataclass
class Group:
    """`worker_group`: Ray's; `commits`: checkpoints committed in this fit(); `folder`: the run's."""

    worker_group: Any = None
    commits: int = 0
    folder: Optional[RunFolder] = None
    _nodes: dict[int, str] = field(default_factory=dict)

    def read_nodes(self) -> dict[int, str]:
        """Rank -> Ray's node id. Ray may have replaced workers since the start; the last known after a shutdown."""
        if self.worker_group is not None:
            with contextlib.suppress(ValueError):  # it is not active
                workers = self.worker_group.get_workers()
                self._nodes = {rank: worker.metadata.node_id for rank, worker in enumerate(workers)}
        return self._nodes


CURRENT = Group()
