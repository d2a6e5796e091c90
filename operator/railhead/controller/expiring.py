"""Entries that end by themselves: tokens that were reviewed, children that were created, turns that were not taken."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Expiring(Generic[Key, Value]):
    """Values that end `seconds` after their time, and the oldest before that if there are more than `most`.

    Times never decrease, and a call looks at no other entries than those that have ended, and the next one.
    """

    def __init__(self, seconds: float, *, most: float = math.inf) -> None:
        self._seconds = seconds
        self._most = most
        self._entries: dict[Key, tuple[float, Value]] = {}  # the oldest first

    def put(self, key: Key, value: Value, at: float) -> None:
        """Stores the value as the newest one; its time may lie ahead."""
        self._entries.pop(key, None)
        self._entries[key] = (at, value)
        self._drop_until(-math.inf)

    def get(self, key: Key, now: float) -> Value | None:
        """Returns the value; None if there is none, or if it has ended."""
        self._drop_until(now - self._seconds)
        found = self._entries.get(key)
        if found is None:
            return None
        return found[1]

    def pop(self, key: Key) -> None:
        """Ends the entry, if there is one."""
        self._entries.pop(key, None)

    def count(self, now: float) -> int:
        """Returns the number of entries that have not ended."""
        self._drop_until(now - self._seconds)
        return len(self._entries)

    def _drop_until(self, limit: float) -> None:
        """Drops what was added until `limit`, and the oldest of those that are too many."""
        while self._entries:
            oldest = next(iter(self._entries))
            added_at, _ = self._entries[oldest]
            if added_at > limit and len(self._entries) <= self._most:
                return
            del self._entries[oldest]
