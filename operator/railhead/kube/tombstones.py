"""Remembers what was deleted, so that a late answer to an own write does not bring it back.

An answer and the watch travel on two connections: the answer to a create or delete may be
read after the watch has told that the object is gone. An object taken in then would stay in
the view for ever, because nothing more is ever said about it.
"""

from __future__ import annotations

from collections import OrderedDict

KEEP_AT_MOST = 10_000  # the answers that can still be late are fewer than that


class Tombstones:
    """uids and the resourceVersion at which they were gone; the newest of them."""

    def __init__(self, keep: int = KEEP_AT_MOST) -> None:
        self._keep = keep
        self._versions: OrderedDict[str, int] = OrderedDict()

    def add(self, uid: str, version: int) -> None:
        self._versions[uid] = max(version, self._versions.pop(uid, 0))
        while len(self._versions) > self._keep:
            self._versions.popitem(last=False)

    def is_deleted_since(self, uid: str, version: int) -> bool:
        """Was it gone at this version? A newer one is back: its labels match the selector again."""
        return version <= self._versions.get(uid, -1)
