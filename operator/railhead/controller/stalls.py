"""Notices an event loop that does not turn.

`/healthz` is served by that loop, so it does not answer then, and the kubelet restarts the operator after about 30 s.
Before that this prints what the loop is busy with: a thread of Python's own does it, without the loop.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)
PERIOD_SECONDS = 1.0
WARN_SECONDS = 5.0
PRINT_SECONDS = 20.0  # the kubelet gives up after 25 to 35 s


async def watch_stalls(count_late: Callable[[float], None], monotonic: Callable[[], float]) -> None:
    """Counts by how much the loop is late. Runs until cancelled."""
    try:
        while True:
            faulthandler.dump_traceback_later(PRINT_SECONDS)
            began = monotonic()
            await asyncio.sleep(PERIOD_SECONDS)
            late = max(0.0, monotonic() - began - PERIOD_SECONDS)
            if late > WARN_SECONDS:
                log.warning("the event loop did not turn for %.1f s", late)
            count_late(late)
    finally:
        faulthandler.cancel_dump_traceback_later()
