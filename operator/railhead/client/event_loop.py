"""Runs coroutines for callers that are not asynchronous, on a thread with an event loop that all of them share.

A notebook's own thread runs an event loop already, in which no call may wait. Ctrl-C, and an iterator that is closed,
cancel the coroutine; the loop continues and closes its connections.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from threading import Thread
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")
Put: TypeAlias = Callable[[Item], None]
Drain = Callable[[], Awaitable[object]]
# Items that a slow consumer has not taken.
MOST_AHEAD = 1000


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
        # Has no effect on one that has ended.
        future.cancel()


def iterate_apart(make: Callable[[Put[Item], Drain], Coroutine[Any, Any, None]]) -> Iterator[Item]:
    """Yields each item that the coroutine puts, then raises its error, if any.

    The coroutine awaits the drain after each item, which waits while the consumer is MOST_AHEAD items behind.
    """
    items = asyncio.Queue[tuple[Item, ...]]()
    room = asyncio.Semaphore(MOST_AHEAD)
    end: tuple[Item, ...] = ()

    async def produce() -> None:
        try:
            await make(lambda item: items.put_nowait((item,)), room.acquire)
        finally:
            items.put_nowait(end)

    async def take(consumed: int) -> list[tuple[Item, ...]]:
        for _ in range(consumed):
            room.release()
        return [await items.get(), *(items.get_nowait() for _ in range(items.qsize()))]

    producer = asyncio.run_coroutine_threadsafe(produce(), _start_loop())
    batch: list[tuple[Item, ...]] = []
    try:
        while end not in batch:
            batch = run_apart(take(len(batch)))
            for item in batch:
                yield from item
        producer.result()
    finally:
        producer.cancel()
