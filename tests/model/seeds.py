"""Which random schedules a test run plays: RAILHEAD_SCHEDULES says how many, RAILHEAD_SEED replays one.

The seeds are the same in each run, so `make test` plays a few of those that `make test-all` plays.
"""

from __future__ import annotations

import asyncio
import os
from typing import Protocol

SCHEDULES = int(os.environ.get("RAILHEAD_SCHEDULES", "30"))


def find_batches(schedules: int, *, size: int) -> list[range]:
    """The seeds of each test; the tests share the processors."""
    only = os.environ.get("RAILHEAD_SEED")
    if only:
        return [range(int(only), int(only) + 1)]
    return [range(first, min(first + size, schedules)) for first in range(0, schedules, size)]


class Seeded(Protocol):
    """A random schedule."""

    seed: int

    async def run(self) -> object: ...


def replay(schedule: Seeded) -> None:
    """Runs it to its end. Raises AssertionError, with what replays it."""
    try:
        asyncio.run(schedule.run())
    except AssertionError as error:
        raise AssertionError(f"replay with RAILHEAD_SEED={schedule.seed}: {error}") from error
