"""Serves the operator's applications: probes, metrics and reports. A TLS listener bounds the number of connections.

A stranger is a connection that has not had a report accepted, from its first packet on: it may be slow with the TLS
handshake, with headers or with a body, or send nothing. When there are too many, the oldest one makes way for a new
one, but not in its first second: so a burst of drivers is served in turn.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
END_SECONDS = 2.0  # for requests in flight when the operator stops; the driver repeats its report
KEEP_ALIVE_SECONDS = 75  # a driver reports every SILENCE_SECONDS
LINGER_SECONDS = 1.0  # for the rest of a body that no handler reads, so that its sender sees the answer
BUFFER_BYTES = 16 * 1024  # of a body before a handler reads it


class TlsListener:
    """Accepts TLS connections, and closes those that bring no report."""

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
        self._reports: dict[web.RequestHandler, asyncio.Event] = {}
        self._of_pods: WeakValueDictionary[str, asyncio.Transport] = WeakValueDictionary()

    def keep(self, request: web.Request, *, pod_uid: str) -> None:
        """Keeps the connection of a report that was accepted, and closes an earlier one of the same pod."""
        report = self._reports.pop(request.protocol, None)
        if report is None or request.transport is None:
            return
        report.set()
        earlier = self._of_pods.get(pod_uid)
        if earlier is not None:
            earlier.abort()
        self._of_pods[pod_uid] = request.transport

    @asynccontextmanager
    async def accepting(self, host: str, port: int, server: web.Server) -> AsyncIterator[None]:
        """Accepts connections while the context lasts, and closes the strangers' then."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, backlog=BACKLOG) as listening:
            listening.setblocking(False)
            accepting = asyncio.create_task(self._accept(listening, server))
            try:
                yield
            finally:
                tasks = [accepting, *self._strangers]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:  # such as too many open files
                log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            task = asyncio.create_task(self._await_report(connection, server))
            self._strangers[task] = loop.time()
            task.add_done_callback(lambda task: self._strangers.pop(task, None))

    async def _make_room(self) -> None:
        """Returns when one more stranger may come; later ones wait in the kernel."""
        while len(self._strangers) >= self._most:
            oldest, arrived = next(iter(self._strangers.items()))
            grace = arrived + self._grace - asyncio.get_running_loop().time()
            await asyncio.wait([oldest], timeout=max(grace, 0.0))
            self._strangers.pop(oldest, None)
            oldest.cancel()

    async def _await_report(self, connection: socket.socket, server: web.Server) -> None:
        """Ends when the stranger is none any more, or its time is over."""
        protocol, transport = server(), None
        report = self._reports[protocol] = asyncio.Event()
        try:
            async with asyncio.timeout(self._seconds):
                transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: protocol, connection, ssl=self._context
                )
                await report.wait()
                transport = None
        except OSError:  # TLS errors and the end of its time
            pass
        finally:
            self._reports.pop(protocol, None)
            if transport is not None:
                transport.abort()


@asynccontextmanager
async def serve(app: web.Application, listen: str, *, listener: TlsListener | None = None) -> AsyncIterator[None]:
    """Serves the application on host:port while the context lasts: with TLS by the listener, or in the open."""
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,  # drivers do not compress, and a few bytes may become many
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        lingering_time=LINGER_SECONDS,
        read_bufsize=BUFFER_BYTES,
        shutdown_timeout=END_SECONDS,
    )
    await runner.setup()
    host, port = split_address(listen)
    try:
        if listener is None:
            await web.TCPSite(runner, host, port).start()
            yield
        else:
            assert runner.server is not None
            async with listener.accepting(host, port, runner.server):
                yield
    finally:
        await runner.cleanup()
