"""Turns for requests that are expensive for the API server: one per second for all jobs together.

Events have no watch cache in the API server: each look-up of a pod's Events reads those of the whole namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from railhead.api.job import JobKey

Key = TypeVar("Key", bound=Hashable)
PERIOD_SECONDS = 1.0
UNUSED_SECONDS = 60.0  # a turn that was not taken by then is forgotten


def drop_until(times: dict[Key, float], limit: float) -> None:
    """Drops the entries up to this time from a dict in the order of time, and looks at no other but the next one."""
    while times and times[oldest := next(iter(times))] <= limit:
        del times[oldest]


class Turns:
    """Each job that asks has one turn, in the order of asking."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next = float("-inf")
        self._turns: dict[JobKey, float] = {}  # in the order of time

    def take(self, key: JobKey) -> float:
        """Returns 0 when it is this job's turn, else the seconds until then: ask again."""
        now = self._monotonic()
        drop_until(self._turns, now - UNUSED_SECONDS)
        turn = self._turns.setdefault(key, max(now, self._next))
        self._next = max(self._next, turn + PERIOD_SECONDS)
        if turn <= now:
            del self._turns[key]
        return max(turn - now, 0.0)
