"""Turns for requests that are expensive for the API server: one per second for all jobs together.

Events have no watch cache in the API server: each look-up of a pod's Events reads those of the whole namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from railhead.controller.expiry import drop_until

Key = TypeVar("Key", bound=Hashable)
UNUSED_SECONDS = 60.0  # a turn that was not taken by then is forgotten


class Turns(Generic[Key]):
    """Each key that asks has one turn, in the order of asking."""

    def __init__(self, monotonic: Callable[[], float], *, period_seconds: float = 1.0) -> None:
        self._monotonic = monotonic
        self._period = period_seconds
        self._next = float("-inf")
        self._turns: dict[Key, float] = {}  # in the order of time

    def take(self, key: Key) -> float:
        """0 when it is this key's turn, else the seconds until then: ask again."""
        now = self._monotonic()
        drop_until(self._turns, now - UNUSED_SECONDS)
        turn = self._turns.get(key)
        if turn is None:
            turn = max(now, self._next)
            self._next = turn + self._period
        if turn > now:
            self._turns[key] = turn
            return turn - now
        self._turns.pop(key, None)
        return 0.0
