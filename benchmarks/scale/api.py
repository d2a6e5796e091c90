"""The benchmark's own requests: as plain as they can be, so that they cost little beside the operator's."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from railhead.local.control_plane import ControlPlane

Object = dict[str, Any]
CLIENTS = 20
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_COUNTED = re.compile(r"^apiserver_request_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Api:
    """The administrator's requests to one control plane."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server

    async def request(self, method: str, path: str, body: bytes | None = None, *, content_type: str = "") -> Object:
        """Raises aiohttp.ClientError, for a status of 400 and more too."""
        headers = {"Content-Type": content_type or "application/json"}
        async with self._session.request(method, self._server + path, data=body, headers=headers) as response:
            data = await response.read()
            if response.status >= 400:
                raise aiohttp.ClientError(f"{method} {path}: {response.status} {data[:500].decode()}")
            return dict(json.loads(data))

    async def for_all(self, requests: Iterable[tuple[str, str, bytes | None]]) -> None:
        """`CLIENTS` at a time: method, path, body."""
        left = iter(list(requests))

        async def work() -> None:
            for method, path, body in left:
                await self.request(method, path, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(work())

    async def watch_added(self, path: str, on_added: Callable[[], None], *, ready: asyncio.Event) -> None:
        """Calls it for each object that appears in the collection. Runs until cancelled."""
        headers = {"Accept": METADATA.format("")}
        first = await self.request("GET", f"{path}?limit=1")
        query = f"watch=1&resourceVersion={first['metadata']['resourceVersion']}"
        async with self._session.get(f"{self._server}{path}?{query}", headers=headers) as response:
            ready.set()
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.startswith(b'{"type":"ADDED"'):
                        on_added()
        raise aiohttp.ClientError(f"the watch of {path} ended")

    async def count_requests(self) -> Counter[str]:
        """Requests that the API server has answered: `POST pods` and the like, by its own metrics."""
        async with self._session.get(f"{self._server}/metrics") as response:
            text = await response.text()
        counted: Counter[str] = Counter()
        for labels, value in _COUNTED.findall(text):
            known = dict(_LABEL.findall(labels))
            if known.get("resource"):
                where = "/".join(part for part in (known["resource"], known.get("subresource", "")) if part)
                counted[f"{known['verb']} {where}"] += int(float(value))
        return counted


@asynccontextmanager
async def connect(plane: ControlPlane) -> AsyncIterator[Api]:
    context = ssl.create_default_context(cafile=str(plane.pki / "ca.crt"))
    context.load_cert_chain(plane.pki / "admin.crt", plane.pki / "admin.key")
    connector = aiohttp.TCPConnector(ssl=context, limit=CLIENTS + 10)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=300)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=2**20) as session:
        yield Api(session, plane.server)
