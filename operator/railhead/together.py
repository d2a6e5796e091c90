"""How concurrent tasks begin and end: carefully, all of them with the first, or one of them gracefully."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

MOST_AT_A_TIME = 16


async def run_together(*parts: Awaitable[object]) -> None:
    """Runs all parts until the first one ends, then cancels the others and awaits them. Raises its error."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def let_end(part: Coroutine[Any, Any, object], *, seconds: float) -> None:
    """Awaits the part. When the caller is cancelled, the part gets `seconds` to finish by itself."""
    task = asyncio.create_task(part)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=seconds)
        raise
    finally:
        task.cancel()


async def run_with_slow_start(requests: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Sends first one request, then one more at a time with each that succeeds, up to MOST_AT_A_TIME.

    After an error no further request is sent, so that a rejected gang costs the API server little; raises the first
    error when those under way have ended.
    """
    if not requests:
        return
    left = iter(requests)
    errors = list[BaseException]()

    async def work(group: asyncio.TaskGroup, workers: list[None]) -> None:
        for request in left:
            try:
                await request()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                errors.append(error)
            if errors:
                return
            if len(workers) < MOST_AT_A_TIME:
                workers.append(None)
                group.create_task(work(group, workers))

    async with asyncio.TaskGroup() as group:
        await work(group, [None])
    if errors:
        raise errors[0]
