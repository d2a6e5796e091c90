"""Runs coroutines for callers that are not asynchronous, on a thread with an event loop that all of them share.

A notebook's own thread runs an event loop already, in which no call may wait. Ctrl-C, and an iterator that is closed,
cancel the coroutine; the loop continues and closes its connections.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")
MOST_AHEAD = 1000  # items that a slow consumer has not taken


@functools.cache
def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="railhead-client", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_start_loop.cache_clear)  # the child does not have the thread


def run_apart(part: Coroutine[Any, Any, Result]) -> Result:
    """Returns the coroutine's result, or raises its error."""
    future = asyncio.run_coroutine_threadsafe(part, _start_loop())
    try:
        return future.result()
    finally:
        future.cancel()  # has no effect on one that has ended


class Pipe(Generic[Item]):
    """Takes items on the loop's thread, for a consumer on another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: SimpleQueue[tuple[Item] | None] = SimpleQueue()
        self._has_room = asyncio.Event()

    def put(self, item: Item) -> None:
        self._items.put((item,))

    async def drain(self) -> None:
        """Waits while the consumer is MOST_AHEAD items behind."""
        while self._items.qsize() >= MOST_AHEAD:
            self._has_room.clear()
            await self._has_room.wait()

    def end(self) -> None:
        """Ends the consumer's iteration after the items so far."""
        self._items.put(None)

    def __iter__(self) -> Iterator[Item]:
        while (found := self._items.get()) is not None:
            if self._items.qsize() == MOST_AHEAD // 2:
                self._loop.call_soon_threadsafe(self._has_room.set)
            yield found[0]


def iterate_apart(make: Callable[[Pipe[Item]], Coroutine[Any, Any, None]]) -> Iterator[Item]:
    """Yields each item that the coroutine puts into its pipe, then raises its error, if any."""
    loop = _start_loop()
    pipe = Pipe[Item](loop)
    future = asyncio.run_coroutine_threadsafe(make(pipe), loop)
    try:
        future.add_done_callback(lambda _: pipe.end())
        yield from pipe
        future.result()
    finally:
        future.cancel()
