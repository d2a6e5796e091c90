"""The connections to the report endpoint: a bounded number of strangers for a few seconds, and one of each pod.

A stranger is a connection that has not had a report accepted, from its first packet on: it may be slow with the TLS
handshake, with headers or with a body, or send nothing. When there are too many, the oldest one makes way for a new
one, but not in its first second: so a burst of drivers is served in turn.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio import sslproto
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from weakref import WeakValueDictionary

from aiohttp import web

from railhead.controller.config import split_address

log = logging.getLogger(__name__)
MOST_STRANGERS = 512
STRANGER_SECONDS = 10.0  # no driver needs longer until its first answer
GRACE_SECONDS = 1.0
BACKLOG = 512  # when the operator starts, all drivers connect
PAUSE_SECONDS = 1.0
# asyncio fills a buffer of this size with zeros for each TLS connection, 256 KiB by default, which would be most of the
# operator's memory; a record has 16 KiB.
sslproto.SSLProtocol.max_size = 16 * 1024


class Gate:
    """Accepts TLS connections and closes those that bring no report."""

    def __init__(
        self,
        context: SSLContext,
        *,
        most: int = MOST_STRANGERS,
        seconds: float = STRANGER_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> None:
        """`most`: strangers at a time; `seconds`: for each; `grace`: of them before it may have to make way."""
        self._context = context
        self._most = most
        self._seconds = seconds
        self._grace = grace
        self._strangers: dict[asyncio.Task[None], float] = {}  # with the time of their arrival, the oldest first
        self._leaving = asyncio.Event()
        self._proofs: dict[web.RequestHandler, asyncio.Future[None]] = {}
        self._of_pods: WeakValueDictionary[str, asyncio.Transport] = WeakValueDictionary()

    def admit(self, request: web.Request, *, pod_uid: str) -> None:
        """A report of this pod was accepted: its connection stays, and an earlier one of the same pod does not."""
        proof = self._proofs.get(request.protocol)
        if proof is None or proof.done() or request.transport is None:
            return
        proof.set_result(None)
        earlier = self._of_pods.get(pod_uid)
        if earlier is not None:
            earlier.abort()
        self._of_pods[pod_uid] = request.transport

    @asynccontextmanager
    async def accepting(self, listen: str, server: web.Server) -> AsyncIterator[None]:
        """Accepts connections to host:port while the context lasts."""
        host, port = split_address(listen)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, backlog=BACKLOG) as listening:
            listening.setblocking(False)
            task = asyncio.create_task(self._accept(listening, server))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def clear(self) -> None:
        """Closes the strangers' connections."""
        tasks = list(self._strangers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:  # such as too many open files
                log.warning("the report endpoint cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            try:
                await self._make_way()
            except asyncio.CancelledError:
                connection.close()
                raise
            task = asyncio.create_task(self._meet(connection, server))
            self._strangers[task] = loop.time()
            task.add_done_callback(self._forget)

    async def _make_way(self) -> None:
        """Returns when one more stranger may come; later ones wait in the kernel."""
        loop = asyncio.get_running_loop()
        while len(self._strangers) >= self._most:
            oldest, arrived = next(iter(self._strangers.items()))
            wait = arrived + self._grace - loop.time()
            if wait <= 0:
                self._forget(oldest)
                oldest.cancel()
                return
            self._leaving.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._leaving.wait()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._strangers.pop(task, None)
        self._leaving.set()

    async def _meet(self, connection: socket.socket, server: web.Server) -> None:
        """Ends when the stranger is none any more, or its time is over."""
        loop, protocol, transport = asyncio.get_running_loop(), server(), None
        proof = self._proofs[protocol] = loop.create_future()
        try:
            async with asyncio.timeout(self._seconds):
                transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._context)
                await proof
                transport = None
        except OSError:  # TLS errors and the end of its time
            pass
        finally:
            del self._proofs[protocol]
            if transport is not None:
                transport.abort()
