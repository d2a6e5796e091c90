"""A transport for clients whose methods a test replaces: nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from railhead.kube.types import Body


class NoTransport:
    """Fails the test if its fake lets a request through."""

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: Body | None, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        raise AssertionError(f"{method} {path} got past the fake client")
