"""The benchmark's own requests: as plain as they can be, so that they cost little beside the operator's."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from benchmarks.scale.metrics import count_requests, sum_samples
from railhead.local.control_plane import ControlPlane

Object = dict[str, Any]
Item = TypeVar("Item")
CLIENTS = 20
MERGE_PATCH = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


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

    async def merge(self, path: str, change: Object) -> Object:
        return await self.request("PATCH", path, json.dumps(change).encode(), content_type=MERGE_PATCH)

    async def for_all(self, requests: Iterable[tuple[str, str, bytes | None]]) -> None:
        """`CLIENTS` at a time: method, path, body."""
        await for_each(list(requests), lambda each: self.request(*each))

    async def watch(self, path: str, on_line: Callable[[bytes], None], *, ready: asyncio.Event, accept: str) -> None:
        """Calls it with each event of the collection, a line of JSON. Runs until cancelled.

        The API server ends the watch of a client that is too slow, as one on a busy machine may be. The next watch
        begins after the last event.
        """
        first = await self.request("GET", f"{path}?limit=1")
        version = first["metadata"]["resourceVersion"]
        while True:
            last = b""
            query = f"watch=1&resourceVersion={version}"
            async with self._session.get(f"{self._server}{path}?{query}", headers={"Accept": accept}) as response:
                ready.set()
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        on_line(line)
                        last = line
            if last:
                version = read_version(last)

    @asynccontextmanager
    async def watching(
        self, path: str, on_line: Callable[[bytes], None], *, accept: str = "application/json"
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Watches the collection while the context lasts. The task ends only with an error."""
        ready = asyncio.Event()
        task = asyncio.create_task(self.watch(path, on_line, ready=ready, accept=accept))
        waits = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({task, waits}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield task
        finally:
            waits.cancel()
            task.cancel()
            await asyncio.gather(task, waits, return_exceptions=True)

    async def count_requests(self) -> Counter[str]:
        """Requests that the API server has answered: `POST pods` and the like, by its own metrics."""
        return count_requests(await self._read_metrics())

    async def read_used(self) -> float:
        """CPU seconds of the API server since its start, by its own metrics."""
        return sum_samples(await self._read_metrics(), "process_cpu_seconds_total")

    async def _read_metrics(self) -> str:
        async with self._session.get(f"{self._server}/metrics") as response:
            return await response.text()


def read_version(line: bytes) -> str:
    """Returns the resourceVersion of a watch's event. Raises aiohttp.ClientError for an error instead of an event."""
    event = json.loads(line)
    if event["type"] == "ERROR":
        raise aiohttp.ClientError(f"the watch ended: {event['object']}")
    return str(event["object"]["metadata"]["resourceVersion"])


async def for_each(items: Iterable[Item], work: Callable[[Item], Awaitable[object]]) -> None:
    """`CLIENTS` at a time."""
    left = iter(items)

    async def run() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(run())


@asynccontextmanager
async def connect(plane: ControlPlane) -> AsyncIterator[Api]:
    context = ssl.create_default_context(cafile=str(plane.pki / "ca.crt"))
    context.load_cert_chain(plane.pki / "admin.crt", plane.pki / "admin.key")
    connector = aiohttp.TCPConnector(ssl=context, limit=CLIENTS + 10)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=300)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=2**20) as session:
        yield Api(session, plane.server)
