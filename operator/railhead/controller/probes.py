"""/healthz: the event loop turns, and no watch is dead. /readyz: the watches have delivered their first list. /metrics:
Prometheus metrics.

`metrics_server.py` serves the latter instead if they need authentication.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web

from railhead.controller.config import METRICS_PATH, split_address

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serve_probes(
    listen: str,
    is_ready: Callable[[], bool],
    render_metrics: Callable[[], bytes] | None,
    find_problems: Callable[[], Iterable[str]],
) -> AsyncIterator[None]:
    """Serves the paths on host:port while the context lasts; without `render_metrics` no /metrics.

    /healthz fails with the problems that it finds. It asks nothing, so an API server that is away does not delay it.
    """

    async def healthz(_: web.Request) -> web.Response:
        problems = "".join(f"{problem}\n" for problem in find_problems())
        return web.Response(status=503, text=problems) if problems else web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if is_ready() else web.Response(status=503, text="caches are not synced\n")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    if (render := render_metrics) is not None:

        async def metrics(_: web.Request) -> web.Response:
            return web.Response(body=render(), headers={"Content-Type": METRICS_TYPE})

        app.add_routes([web.get(METRICS_PATH, metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    host, port = split_address(listen)
    await web.TCPSite(runner, host, port).start()
    try:
        yield
    finally:
        await runner.cleanup()
