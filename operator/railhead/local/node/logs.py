"""The part of a kubelet's HTTPS API that `kubectl logs` needs. Only the API server's certificate is accepted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from railhead.local.node.agent import Agent
from railhead.local.node.pod_runner import PodRunner

FOLLOW_SECONDS = 0.2
CHUNK_BYTES = 65536


def tail_offset(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin, in bytes."""
    data = path.read_bytes()
    if lines <= 0:
        return len(data)
    end = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        end = data.rfind(b"\n", 0, end)
        if end < 0:
            return 0
    return end + 1


async def _stream(
    response: web.StreamResponse, runner: PodRunner, container: str, *, offset: int, follow: bool
) -> None:
    path = runner.log_file(container)
    with path.open("rb") as file:
        file.seek(offset)
        while True:
            has_ended = runner.has_ended(container)  # checked before the read, so that nothing is missed
            while data := file.read(CHUNK_BYTES):
                await response.write(data)
            if not follow or has_ended or not path.exists():
                return
            await asyncio.sleep(FOLLOW_SECONDS)


def build_app(agent: Agent) -> web.Application:
    """Serves /containerLogs/{namespace}/{pod}/{container}."""

    async def container_logs(request: web.Request) -> web.StreamResponse:
        info, query = request.match_info, request.query
        runner = agent.find(info["namespace"], info["pod"])
        if runner is None:
            raise web.HTTPNotFound(text="no such pod on this node\n")
        path = runner.log_file(info["container"])
        if not path.exists():
            raise web.HTTPBadRequest(text=f"container {info['container']} of pod {info['pod']} has not started\n")
        lines = query.get("tailLines", "")
        offset = tail_offset(path, int(lines)) if lines.isdigit() else 0
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        follow = query.get("follow", "") in ("true", "1")
        await _stream(response, runner, info["container"], offset=offset, follow=follow)
        await response.write_eof()
        return response

    app = web.Application()
    app.add_routes([web.get("/containerLogs/{namespace}/{pod}/{container}", container_logs)])
    return app


@asynccontextmanager
async def serve_logs(agent: Agent, *, address: str, ca: str, certificate: str, key: str) -> AsyncIterator[int]:
    """Serves while the context lasts; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    runner = web.AppRunner(build_app(agent), access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, address, 0, ssl_context=context)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
