"""Waits until a number of pods exist, or run, by one watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.run import RunFailed
from benchmarks.scale.api import METADATA, Api
from benchmarks.scale.plane import PODS

STALLED_SECONDS = 60.0
ADDED = b'{"type":"ADDED"'


class Complete:
    """Counts pods; `wait` returns with the last one."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        self._last = time.monotonic()
        self._done = asyncio.Event()

    def count(self) -> None:
        self.left -= 1
        self._last = time.monotonic()
        if self.left <= 0:
            self._done.set()

    async def wait(self) -> float:
        """When the last one came, by the monotonic clock. Raises RunFailed when none comes for a minute."""
        began = time.monotonic()
        while not self._done.is_set():
            if time.monotonic() - max(began, self._last) > STALLED_SECONDS:
                raise RunFailed(f"no pod for {STALLED_SECONDS:.0f} s; {self.left} are missing")
            try:
                await asyncio.wait_for(self._done.wait(), 1)
            except TimeoutError:
                continue
        return self._last


@asynccontextmanager
async def counting(api: Api, wanted: int) -> AsyncIterator[Complete]:
    """Of pods that are created."""
    complete = Complete(wanted)

    def look(line: bytes) -> None:
        if line.startswith(ADDED):
            complete.count()

    async with api.watching(PODS, look, accept=METADATA):
        yield complete
