"""Serves an aiohttp application by a `Listener`, which bounds how many connections there are at a time, how long each
may last, and how many requests it may bring. The operator and the node agent of local mode have no other servers.

A stranger is a connection that has not been kept, from its first packet on: it may be slow with the TLS handshake, with
headers or with a body, or send nothing. When there are too many, the oldest one makes way for a new one, but not in its
grace: so a burst of drivers is served in turn. All clients of probes and metrics are strangers; drivers are kept once a
report of theirs is accepted, and the API server is kept at the agent once it has shown its certificate.

Requests that are pipelined on one connection take turns with those of all others.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext
from weakref import WeakKeyDictionary, WeakValueDictionary

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

log = logging.getLogger(__name__)
MOST_STRANGERS = 512
# No driver needs longer until its first answer.
STRANGER_SECONDS = 10.0
GRACE_SECONDS = 1.0
MOST_REQUESTS = 1000  # of a connection: a driver that reports every two seconds connects again after half an hour
BACKLOG = 512  # when the operator starts, all drivers connect
PAUSE_SECONDS = 1.0
END_SECONDS = 2.0  # for requests in flight when the operator stops; the driver repeats its report
KEEP_ALIVE_SECONDS = 75  # a driver reports every SILENCE_SECONDS
LINGER_SECONDS = 1.0  # for the rest of a body that no handler reads, so that its sender sees the answer
BUFFER_BYTES = 16 * 1024  # of a body before a handler reads it


class Listener:
    """Accepts connections, and closes those that nobody keeps."""

    def __init__(
        self,
        context: SSLContext | None,
        *,
        most: int = MOST_STRANGERS,
        seconds: float = STRANGER_SECONDS,
        grace: float = GRACE_SECONDS,
        requests: int = MOST_REQUESTS,
    ) -> None:
        """Sets the bounds.

        Args:
            context: of TLS; None = plain HTTP.
            most: strangers at a time.
            seconds: for each of them.
            grace: of these, before it may have to make way.
            requests: of one connection.
        """
        self._context = context
        self._most = most
        self._seconds = seconds
        self._grace = grace
        self._requests = requests
        self._strangers: dict[asyncio.Task[None], float] = {}  # with the time of their arrival, the oldest first
        self._ends: dict[web.RequestHandler, asyncio.Event] = {}  # set once the connection is kept or closed
        self._of_pods: WeakValueDictionary[str, asyncio.Transport] = WeakValueDictionary()
        self._counted: WeakKeyDictionary[asyncio.Transport, int] = WeakKeyDictionary()  # requests

    def keep(self, request: web.Request, *, pod_uid: str = "") -> None:
        """Keeps the request's connection beyond a stranger's time, and closes an earlier one of the same pod."""
        end = self._ends.pop(request.protocol, None)
        if end is None or request.transport is None:
            return
        end.set()
        if not pod_uid:
            return
        earlier = self._of_pods.get(pod_uid)
        if earlier is not None:
            earlier.abort()
        self._of_pods[pod_uid] = request.transport

    def add_bounds(self, app: web.Application) -> None:
        """Makes the application's requests take turns, and the last one of a connection close it."""

        @web.middleware
        async def wait_turn(request: web.Request, handler: Handler) -> web.StreamResponse:
            # Otherwise aiohttp answers all pipelined requests before it looks at another connection.
            await asyncio.sleep(0)
            return await handler(request)

        app.middlewares.insert(0, wait_turn)
        app.on_response_prepare.append(self._count_request)

    async def _count_request(self, request: web.Request, response: web.StreamResponse) -> None:
        if request.transport is None:
            return
        number = self._counted.get(request.transport, 0) + 1
        self._counted[request.transport] = number
        if number >= self._requests:
            response.force_close()
            response.headers[hdrs.CONNECTION] = "close"

    @asynccontextmanager
    async def accepting(self, listening: socket.socket, server: web.Server) -> AsyncIterator[None]:
        """Accepts connections while the context lasts, and closes the strangers' then."""
        self._follow_ends(server)
        listening.setblocking(False)
        accepting = asyncio.create_task(self._accept(listening, server))
        try:
            yield
        finally:
            tasks = [accepting, *self._strangers]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow_ends(self, server: web.Server) -> None:
        """Makes a connection that its client has closed count no longer; aiohttp has no signal for its end."""
        note_end = server.connection_lost

        def connection_lost(handler: web.RequestHandler, exc: BaseException | None = None) -> None:
            note_end(handler, exc)
            end = self._ends.get(handler)
            if end is not None:
                end.set()

        server.connection_lost = connection_lost  # type: ignore[method-assign]

    async def _accept(self, listening: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                # With too many open files, for example, accepting fails at once again; the pause keeps this from a busy
                # loop.
                log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            task = asyncio.create_task(self._await_end(connection, server))
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

    async def _await_end(self, connection: socket.socket, server: web.Server) -> None:
        """Ends once the connection is kept, or its time is over."""
        protocol = server()
        transport = None
        end = self._ends[protocol] = asyncio.Event()
        try:
            async with asyncio.timeout(self._seconds):
                transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: protocol, connection, ssl=self._context
                )
                await end.wait()
                transport = None
        except OSError:
            # TLS errors and the end of its time.
            pass
        finally:
            self._ends.pop(protocol, None)
            if transport is not None:
                transport.abort()


@asynccontextmanager
async def serve_within(listener: Listener, app: web.Application, listening: socket.socket) -> AsyncIterator[None]:
    """Serves the application at the socket within the listener's bounds, while the context lasts."""
    listener.add_bounds(app)
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
    try:
        assert runner.server is not None
        async with listener.accepting(listening, runner.server):
            yield
    finally:
        await runner.cleanup()
