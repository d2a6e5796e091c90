"""HTTP readiness probes, as a kubelet runs them. A container without one is ready when it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from railhead.kube.types import Object

Report = Callable[[bool], Awaitable[None]]


async def watch_readiness(container: Object, *, address: str, report: Report) -> None:
    """Reports each change, starting from not ready, until it is cancelled; returns at once without a probe.

    A probe that is not supported here (a command, a TCP port, gRPC) counts as ready.
    """
    probe = container.get("readinessProbe")
    if not probe:
        return
    if "httpGet" not in probe:
        await report(True)
        return
    url = build_url(container, probe["httpGet"], address=address)
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    is_ready, good, bad = False, 0, 0
    timeout = aiohttp.ClientTimeout(total=probe.get("timeoutSeconds") or 1)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(ssl=False)) as session:
        while True:
            good, bad = (good + 1, 0) if await _answers(session, url) else (0, bad + 1)
            was_ready = is_ready
            if good >= (probe.get("successThreshold") or 1):
                is_ready = True
            elif bad >= (probe.get("failureThreshold") or 3):
                is_ready = False
            if is_ready != was_ready:
                await report(is_ready)
            await asyncio.sleep(probe.get("periodSeconds") or 10)


def build_url(container: Object, get: Object, *, address: str) -> str:
    """A named port is one of the container's."""
    ports = {p.get("name"): p["containerPort"] for p in container.get("ports") or []}
    port = ports.get(get["port"], get["port"])
    return f"{(get.get('scheme') or 'HTTP').lower()}://{get.get('host') or address}:{port}{get.get('path') or '/'}"


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, allow_redirects=False) as response:
            return 200 <= response.status < 400
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
