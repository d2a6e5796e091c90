"""How what goes on at the same time ends: all with the first, or what has begun before the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any


async def run_together(*parts: Awaitable[object]) -> None:
    """Until the first of them ends; the others are cancelled and waited for. Raises what that first one raised."""
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
    """Waits for it. When the waiter is cancelled, what has begun has so many seconds to end by itself."""
    task = asyncio.create_task(part)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=seconds)
        raise
    finally:
        task.cancel()
