"""Remembers deleted objects, so that a late response to our own write does not bring them back.

Responses and the watch use two connections: the response to a create or delete may be
processed after the watch has delivered DELETED. Storing the object then would keep it in the
view forever, because no further event about it ever arrives.
"""

from __future__ import annotations

from collections import OrderedDict

KEEP_AT_MOST = 10_000  # more than the responses that can still be late


class Tombstones:
    """uids of deleted objects with the resourceVersion of their deletion; keeps the newest."""

    def __init__(self, keep: int = KEEP_AT_MOST) -> None:
        self._keep = keep
        self._versions: OrderedDict[str, int] = OrderedDict()

    def add(self, uid: str, version: int) -> None:
        self._versions[uid] = max(version, self._versions.pop(uid, 0))
        while len(self._versions) > self._keep:
            self._versions.popitem(last=False)

    def is_deleted_since(self, uid: str, version: int) -> bool:
        """Whether it was deleted at this version. A newer version is back: its labels match the selector again."""
        return version <= self._versions.get(uid, -1)
