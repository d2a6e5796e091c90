"""/healthz: the event loop turns. /readyz: the watches have delivered their first list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from railhead.controller.config import split_address


@asynccontextmanager
async def serve_probes(listen: str, is_ready: Callable[[], bool]) -> AsyncIterator[None]:
    """Serves both paths on host:port while the context lasts."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if is_ready() else web.Response(status=503, text="watches are not synced\n")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    host, port = split_address(listen)
    await web.TCPSite(runner, host, port).start()
    try:
        yield
    finally:
        await runner.cleanup()
