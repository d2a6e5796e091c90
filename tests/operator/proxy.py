"""A proxy between an operator and the real API server: it cuts, delays and rejects requests, and goes down."""

from __future__ import annotations

import asyncio
import json
import re
import selectors
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NoReturn

import aiohttp
from aiohttp import web

from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane

CUT_BEFORE, CUT_AFTER = "cut before the API server has it", "cut after the API server answered"
HANG_BEFORE, HANG_AFTER = "hang before the API server has it", "hang after the API server answered"
KILL_AFTER = "kill after the API server answered"
Fault = str | int  # a number is a status with which the proxy answers instead of the API server
REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
RETRY_AFTER_SECONDS = 1
PATH = re.compile(r"^/apis?/.*?namespaces/(?P<namespace>[^/]+)/(?P<resource>[^/]+)(/(?P<name>[^/]+))?(/(?P<sub>.+))?$")
NOT_FORWARDED = ("host", "content-length", "transfer-encoding", "connection", "content-encoding")
COMMANDS_SECONDS = 30
TURNS = 2000
GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
EXPIRED = json.dumps({"type": "ERROR", "object": {**GONE, "message": "too old resource version"}}).encode() + b"\n"


@dataclass(frozen=True)
class Asked:
    """One request about something in a namespace."""

    method: str
    namespace: str
    resource: str
    name: str

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


@dataclass
class Trouble:
    """One fault, at one request to one namespace: the `number`-th, reads included. `done` once it has happened."""

    number: int
    fault: Fault
    done: Asked | None = None


@dataclass(eq=False)
class Watch:
    """An open watch. A silent one forwards nothing, not even its end; `last` is its last event."""

    request: web.Request
    upstream: aiohttp.ClientResponse
    last: bytes = b""
    is_silent: bool = False


@dataclass
class Ledger:
    """The requests in one namespace.

    Attributes:
        asked: requests so far, in order, without watches.
        granted: (method, resource, name) of the writes that the API server granted, and how often.
    """

    trouble: Trouble | None = None
    asked: list[Asked] = field(default_factory=list)
    granted: Counter[tuple[str, str, str]] = field(default_factory=Counter)


class FaultyProxy:
    """Speaks TLS with the API server's own certificate. Use as a context manager; runs in its own thread.

    Attributes:
        kill: kills the operator, for the faults that do.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.kill: Callable[[], None] = lambda: None
        self._ledgers: dict[str, Ledger] = {}
        self._watches: set[Watch] = set()
        self._is_down = False
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty proxy", daemon=True)

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ledger(self, namespace: str) -> Ledger:
        return self._ledgers.setdefault(namespace, Ledger())

    def cut_watches(self) -> int:
        """Cuts all open ones; returns how many."""
        return int(self._call(self._end_watches(b"")))

    def expire_watches(self) -> int:
        """All open ones end as if their resourceVersion had been compacted."""
        return int(self._call(self._end_watches(EXPIRED)))

    def stall_watches(self) -> int:
        """All open ones stay open and silent."""
        watches = list(self._watches)
        for watch in watches:
            watch.is_silent = True
        return len(watches)

    @property
    def watches(self) -> int:
        """How many are open."""
        return len(self._watches)

    @property
    def is_up(self) -> bool:
        return not self._is_down

    def go_down(self) -> None:
        """Nothing listens, and all connections are broken."""
        self._call(self._close())

    def come_back(self) -> None:
        self._call(self._open())

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(COMMANDS_SECONDS)

    async def _start(self) -> None:
        authority = ssl.create_default_context(cafile=str(self._plane.pki / "ca.crt"))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=authority, limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._open()

    async def _stop(self) -> None:
        """A connection whose handshake ends after the clean-up belongs to nobody: it is broken here. Until then its
        socket may be known to a task alone."""
        server = self._runner.server
        if self.is_up:
            await self._stop_listening()
        await self._runner.cleanup()
        await self._session.close()
        for _ in range(TURNS):
            if len(self._selector.get_map()) == 1 and len(asyncio.all_tasks()) == 1:  # the loop's own, and this one
                return
            _break_connections(server)
            await asyncio.sleep(0.01)
        raise AssertionError(f"{len(self._selector.get_map()) - 1} sockets of the proxy are still open")

    async def _open(self) -> None:
        self._is_down = False
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._plane.pki / "apiserver.crt", self._plane.pki / "apiserver.key")
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=context, reuse_address=True)
        await self._site.start()

    async def _close(self) -> None:
        self._is_down = True
        await self._stop_listening()
        await self._end_watches(b"")
        _break_connections(self._runner.server)

    async def _stop_listening(self) -> None:
        """A server of asyncio that is closed between accepting a connection and the first step of the task that serves
        it forgets the socket (AssertionError in Server._attach): so it first accepts no more, and that task begins."""
        for listening in self._site._server.sockets if self._site._server is not None else ():  # type: ignore[attr-defined]
            self._loop.remove_reader(listening)
        await asyncio.sleep(0)
        await self._site.stop()

    async def _end_watches(self, last: bytes) -> int:
        watches = list(self._watches)
        for watch in watches:
            watch.last = last
            if last:
                watch.upstream.close()
            elif watch.request.transport is not None:
                watch.request.transport.abort()
        return len(watches)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._is_down:
            self._cut(request)
        body = await request.read()
        if request.query.get("watch") in ("1", "true"):
            return await self._pass_watch(request)
        asked = _parse(request, body)
        if asked is None:
            return await self._forward(request, body)
        ledger = self.ledger(asked.namespace)
        fault = self._next_fault(ledger, asked)
        if isinstance(fault, int):
            return _refuse(fault)
        if fault in (CUT_BEFORE, HANG_BEFORE):
            return await self._withhold(request, fault)
        # The request of a client that is killed meanwhile still counts.
        answer = await asyncio.shield(asyncio.ensure_future(self._forward_and_note(request, body, asked)))
        return await self._withhold(request, fault) if fault is not None else answer

    def _next_fault(self, ledger: Ledger, asked: Asked) -> Fault | None:
        number = len(ledger.asked)
        ledger.asked.append(asked)
        trouble = ledger.trouble
        if trouble is None or trouble.number != number:
            return None
        trouble.done = asked
        return trouble.fault

    async def _withhold(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault in (HANG_BEFORE, HANG_AFTER):
            await asyncio.Event().wait()  # until the client has gone, which cancels this
        if fault == KILL_AFTER:
            self.kill()
        self._cut(request)

    def _cut(self, request: web.Request) -> NoReturn:
        if request.transport is not None:
            request.transport.abort()
        raise asyncio.CancelledError

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        async with self._session.request(
            request.method, self._plane.server + request.raw_path, data=body or None, headers=_headers(request.headers)
        ) as answer:
            return web.Response(status=answer.status, body=await answer.read(), headers=_headers(answer.headers))

    async def _forward_and_note(self, request: web.Request, body: bytes, asked: Asked) -> web.Response:
        answer = await self._forward(request, body)
        if asked.is_write and answer.status < 300:
            self.ledger(asked.namespace).granted[asked.method, asked.resource, asked.name] += 1
        return answer

    async def _pass_watch(self, request: web.Request) -> web.StreamResponse:
        async with self._session.get(
            self._plane.server + request.raw_path, headers=_headers(request.headers)
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers(answer.headers))
            await response.prepare(request)
            watch = Watch(request, answer)
            self._watches.add(watch)
            try:
                async for chunk in answer.content.iter_any():
                    if not watch.is_silent:
                        await response.write(chunk)
            except aiohttp.ClientError:
                if not watch.last:
                    raise
            finally:
                self._watches.discard(watch)
            if watch.is_silent:
                await asyncio.Event().wait()
            await response.write(watch.last)
            return response


def _parse(request: web.Request, body: bytes) -> Asked | None:
    """None for requests outside of namespaces."""
    found = PATH.match(request.path)
    if found is None:
        return None
    name = found["name"] or ""
    if request.method == "POST" and not name:
        name = str(json.loads(body)["metadata"].get("name") or "")
    resource = "/".join(part for part in (found["resource"], found["sub"]) if part)
    return Asked(request.method, found["namespace"], resource, name)


def _headers(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in NOT_FORWARDED}


def _refuse(code: int) -> web.Response:
    """As the API server would; 429 with Retry-After."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": REASONS[code], "code": code}
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if code == 429 else {}
    return web.json_response({**status, "message": "injected"}, status=code, headers=headers)


def _break_connections(server: web.Server | None) -> None:
    assert server is not None
    for connection in server.connections:
        connection.force_close()
        if connection.transport is not None:
            connection.transport.abort()
