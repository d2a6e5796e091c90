"""Whether the operator works: /healthz, /readyz, and the stacks of an event loop that does not turn.

/healthz: the event loop turns, and no watch is dead. It asks nothing, so an API server that is away does not delay it.
The loop serves it, so it does not answer while the loop does not turn, and the kubelet restarts the operator after
about 30 s. Before that a thread of Python's own prints what the loop is busy with, without the loop.

/readyz: the watches have delivered their first list.

/metrics is served beside them, unless it needs authentication. Every pod of the cluster may reach this port.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
from collections.abc import Callable, Iterable

from aiohttp import web

from railhead.controller.operator_metrics import METRICS_PATH, Page, respond
from railhead.listener import Listener

log = logging.getLogger(__name__)
MOST_CLIENTS = 128  # connections at a time
PERIOD_SECONDS = 1.0
WARN_SECONDS = 5.0
# The kubelet gives up after 25 to 35 s.
PRINT_SECONDS = 20.0


def build_probes(
    is_ready: Callable[[], bool],
    list_problems: Callable[[], Iterable[str]],
    page: Page | None = None,
) -> web.Application:
    """Builds the application of the probes. /healthz fails with the problems; without a `page` there is no /metrics."""

    async def healthz(_: web.Request) -> web.Response:
        problems = "".join(f"{problem}\n" for problem in list_problems())
        if problems:
            return web.Response(status=503, text=problems)
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="caches are not synced\n")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    if page is not None:

        async def metrics(request: web.Request) -> web.StreamResponse:
            return await respond(request, page)

        app.add_routes([web.get(METRICS_PATH, metrics, allow_head=False)])
    return app


def build_listener() -> Listener:
    """Builds the listener of the probes: without grace, so that the kubelet gets in whatever else is open there."""
    return Listener(None, most=MOST_CLIENTS, grace=0.0, requests=1)


async def watch_stalls(count_late: Callable[[float], None], monotonic: Callable[[], float]) -> None:
    """Counts by how much the loop is late. Runs until cancelled."""
    try:
        while True:
            # Each turn begins the time again, so the stacks are printed only by a loop that does not come back here.
            faulthandler.dump_traceback_later(PRINT_SECONDS)
            began = monotonic()
            await asyncio.sleep(PERIOD_SECONDS)
            late = max(0.0, monotonic() - began - PERIOD_SECONDS)
            if late > WARN_SECONDS:
                log.warning("the event loop did not turn for %.1f s", late)
            count_late(late)
    finally:
        faulthandler.cancel_dump_traceback_later()
