"""Sends the requests of one plan: carefully at first, then several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

REQUESTS_AT_A_TIME = 16


async def run_all(requests: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """First one request, then one more at a time with each that succeeds, up to REQUESTS_AT_A_TIME.

    After an error no further request is sent, so that a rejected gang costs the API server little; raises the first
    error when those under way have ended.
    """
    if not requests:
        return
    left, errors = iter(requests), list[BaseException]()

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
            if len(workers) < REQUESTS_AT_A_TIME:
                workers.append(None)
                group.create_task(work(group, workers))

    async with asyncio.TaskGroup() as group:
        await work(group, [None])
    if errors:
        raise errors[0]
