"""A transport for clients whose methods a test replaces: it sends nothing."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from railhead.kube.bodies import Body


class NoTransport:
    """Fails the test if a request gets through."""

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], body: Body | None, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        raise AssertionError(f"{method} {path} got past the fake client")
