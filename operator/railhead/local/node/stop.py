"""The request to stop a pod's containers, and their grace period."""

from __future__ import annotations

import asyncio
import contextlib


class PodStopped(Exception):
    """The pod was stopped while it waited for something."""


class StopRequest:
    """Made once; later requests can only shorten the grace period."""

    def __init__(self) -> None:
        self._made = asyncio.Event()
        self._shortened = asyncio.Event()
        self._deadline = 0.0

    @property
    def is_made(self) -> bool:
        return self._made.is_set()

    def make(self, grace_seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + grace_seconds
        if not self.is_made or deadline < self._deadline:
            self._deadline = deadline
            self._shortened.set()
        self._made.set()

    async def wait(self) -> None:
        await self._made.wait()

    async def wait_grace(self) -> None:
        """Waits until the grace period of the request is over."""
        while (seconds := self._deadline - asyncio.get_running_loop().time()) > 0:
            self._shortened.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._shortened.wait(), seconds)

    async def pause(self, seconds: float) -> None:
        """Raises PodStopped as soon as the request is made."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._made.wait(), seconds)
        if self.is_made:
            raise PodStopped
