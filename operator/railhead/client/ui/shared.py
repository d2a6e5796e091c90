"""What viewers share: news of a thing, and things that run as long as at least one viewer looks at them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from railhead.client.ui.page_source import TrainJobName


class Versioned:
    """Something that changes, and tells those who wait for that.

    Attributes:
        version: grows with each change.
    """

    def __init__(self) -> None:
        self.version = 0
        self._news = asyncio.Event()

    async def wait(self, version: int) -> None:
        """Returns once there is something newer than this version."""
        while self.version <= version:
            await self._news.wait()

    def tell(self) -> None:
        """Wakes all who wait for something newer."""
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()


class Running(Protocol):
    """Something with a task."""

    async def run(self) -> None:
        """Runs until it is cancelled."""
        ...


Item = TypeVar("Item", bound=Running)


class Shared(Generic[Item]):
    """The items by job; `make` creates one for the first viewer."""

    def __init__(self, make: Callable[[TrainJobName], Item]) -> None:
        self._make = make
        self._open: dict[TrainJobName, tuple[Item, asyncio.Task[None]]] = {}
        self._viewers: dict[TrainJobName, int] = {}

    def acquire(self, key: TrainJobName) -> Item:
        """Returns the job's item for one more viewer, who releases it."""
        self._viewers[key] = self._viewers.get(key, 0) + 1
        if key not in self._open:
            item = self._make(key)
            self._open[key] = (item, asyncio.create_task(item.run()))
        return self._open[key][0]

    def release(self, key: TrainJobName) -> None:
        """Ends the item's task with its last viewer."""
        self._viewers[key] -= 1
        if not self._viewers[key]:
            del self._viewers[key]
            _, task = self._open.pop(key)
            task.cancel()

    def __len__(self) -> int:
        return len(self._open)
