"""/metrics over HTTPS, for those whom the API server lets read it. By default `probes.py` serves it instead."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from railhead.controller.config import METRICS_PATH
from railhead.controller.metrics_access import MetricsAccess
from railhead.controller.probes import METRICS_TYPE
from railhead.controller.report.gate import Gate
from railhead.kube.errors import KubeError

MOST_CONNECTIONS = 64
CONNECTION_SECONDS = 30.0
TEXTS = {401: "a bearer token is required, or it is not valid", 403: f"no right to get {METRICS_PATH}"}


@asynccontextmanager
async def serve_metrics(
    listen: str, context: ssl.SSLContext, access: MetricsAccess, render: Callable[[], bytes]
) -> AsyncIterator[None]:
    """Serves the path on host:port while the context lasts."""

    async def metrics(request: web.Request) -> web.Response:
        try:
            code = await access.check(request.headers.get("Authorization", ""))
        except KubeError:
            return web.Response(status=503, text="the API server does not answer\n")
        if code != 200:
            return web.Response(status=code, text=TEXTS.get(code, "too many unknown tokens; try again") + "\n")
        return web.Response(body=render(), headers={"Content-Type": METRICS_TYPE})

    app = web.Application()
    app.add_routes([web.get(METRICS_PATH, metrics)])
    runner = web.AppRunner(app, access_log=None, auto_decompress=False, lingering_time=0)
    gate = Gate(context, most=MOST_CONNECTIONS, seconds=CONNECTION_SECONDS)  # all of them remain strangers
    await runner.setup()
    try:
        assert runner.server is not None
        async with gate.accepting(listen, runner.server):
            yield
    finally:
        await runner.cleanup()
        await gate.clear()
