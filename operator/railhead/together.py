"""How concurrent tasks end: all of them with the first, or one of them gracefully."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any


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
