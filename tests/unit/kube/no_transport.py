"""A transport for clients whose methods a test replaces: it sends nothing."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from railhead.kube.bodies import Body
from railhead.kube.transport import Transport


class NoTransport(Transport):
    """Fails the test if a request gets through."""

    def __init__(self) -> None:
        pass

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: Body | None, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        raise AssertionError(f"{method} {path} got past the fake client")

    async def open_stream(
        self, path: str, *, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        raise AssertionError(f"{path} got past the fake client")
