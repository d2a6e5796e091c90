"""An HTTP server on loopback with scripted responses, malformed ones included, byte by byte; it records requests.

It knows nothing about Kubernetes, so it does not duplicate the model's API server: it is for tests of HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client as kube_client

from railhead.kube.client import KubeClient
from railhead.kube.transport import open_pools


@dataclass(frozen=True)
class RecordedRequest:
    """One request as received; the query is decoded."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiStub:
    """Sends the responses in order, and repeats the last one."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[RecordedRequest] = []

    def answer(self, body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        async def respond(_: web.Request) -> web.StreamResponse:
            if isinstance(body, bytes):
                return web.Response(body=body, status=status, headers=headers)
            return web.json_response(body, status=status, headers=headers)

        self.answers.append(respond)

    def stream(self, *chunks: bytes, is_cut: bool = False) -> None:
        """Sends each chunk separately; a cut stream ends without its terminator."""

        async def respond(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
                await asyncio.sleep(0)
            if is_cut:
                assert request.transport is not None
                request.transport.close()
            return response

        self.answers.append(respond)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(
            RecordedRequest(request.method, request.path, dict(request.query), dict(request.headers), body)
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def make_api(host: str) -> kube_client.ApiClient:
    """The kubernetes package's client for this host; the caller closes it."""
    configuration = kube_client.Configuration()
    configuration.host = host
    return kube_client.ApiClient(configuration=configuration)


@asynccontextmanager
async def serve_stub() -> AsyncIterator[tuple[ApiStub, KubeClient]]:
    """The stub, and a real client for it."""
    stub = ApiStub()
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", stub.handle)
    server = TestServer(app)
    await server.start_server()
    try:
        async with make_api(str(server.make_url("")).rstrip("/")) as api, open_pools(api) as transport:
            yield stub, KubeClient(transport)
    finally:
        await server.close()
