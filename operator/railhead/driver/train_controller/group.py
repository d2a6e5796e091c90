"""The current worker group: written by the callback, read by the failure policy and the scaling policy.

All of them run in Ray Train's controller actor, one process, where nothing else connects them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Group:
    """`node_of_rank`: Ray's node ids; `commits`: checkpoints committed in this fit()."""

    node_of_rank: dict[int, str] = field(default_factory=dict)
    commits: int = 0


CURRENT = Group()
