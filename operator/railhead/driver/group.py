"""The nodes of the present worker group: written by the callback, read by the failure policy.

Both live in Ray Train's controller actor, one process, where nothing else connects them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Group:
    """`node_of_rank`: Ray's node ids."""

    node_of_rank: dict[int, str] = field(default_factory=dict)


CURRENT = Group()
