"""Where the operator listens, and the bounds of every listener, whatever it serves and with or without TLS."""

from __future__ import annotations

import asyncio
import errno
import gc
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from railhead.controller.config import split_address
from railhead.controller.operator_metrics import FRESH_SECONDS, Page
from railhead.controller.probes import MOST_CLIENTS, build_listener, build_probes
from railhead.controller.serve import open_socket, serve
from railhead.listener import STRANGER_SECONDS, Listener
from railhead.local.addresses import free_port
from tests.unit.controller.connection import Connection

CODE = Path(__file__).resolve().parents[3] / "operator" / "railhead"
GET_HEALTH = b"GET /healthz HTTP/1.1\r\nHost: railhead\r\n\r\n"
GET_METRICS = b"GET /metrics HTTP/1.1\r\nHost: railhead\r\n\r\n"
HAS_IPV6 = socket.has_ipv6 and Path("/proc/net/if_inet6").exists() and "lo" in Path("/proc/net/if_inet6").read_text()
needs_ipv6 = pytest.mark.skipif(not HAS_IPV6, reason="this machine has no ::1")


class Probes:
    """The probe port of an operator with large metrics."""

    def __init__(self, text: bytes = b"a 1\n") -> None:
        self.port = free_port()
        self.renders = 0
        self.opened: list[Connection] = []
        self._text = text

    def build(self) -> web.Application:
        return build_probes(lambda: True, list, Page(self._render, lambda: 0.0))

    def _render(self) -> Callable[[], bytes]:
        self.renders += 1
        return lambda: self._text

    async def connect(self, data: bytes = b"", *, host: str = "127.0.0.1") -> Connection:
        connection = await Connection.open(self.port, host=host)
        self.opened.append(connection)
        connection.send(data)
        return connection

    async def is_healthy(self, host: str = "127.0.0.1") -> bool:
        connection = await self.connect(GET_HEALTH, host=host)
        async with asyncio.timeout(10):
            return await connection.read_status() == 200


@asynccontextmanager
async def serving(
    listener: Listener | None = None, *, text: bytes = b"a 1\n", listen: str = "127.0.0.1:"
) -> AsyncIterator[Probes]:
    probes = Probes(text)
    async with serve(probes.build(), f"{listen}{probes.port}", listener=listener or build_listener()):
        try:
            yield probes
        finally:
            for connection in probes.opened:
                connection.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("localhost:80", ("localhost", 80)),
        (":8443", ("", 8443)),
        ("[::]:8443", ("", 8443)),
        ("[::1]:8443", ("::1", 8443)),
        ("[fe80::1%eth0]:8443", ("fe80::1%eth0", 8443)),
        ("0.0.0.0:8443", ("0.0.0.0", 8443)),
    ],
)
def test_splits_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "8443", "host:", "host:http", "host:-1", "host:65536", "host:٨"),
        *("::", "::1:8443", ":::8443", "fd00::5", "[::1]", "[::1]8443", "[localhost]:80", "[]:80", "[[::1]]:80"),
    ],
)
def test_a_bad_address_is_rejected_with_a_clear_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not host:port; an IPv6 address goes into brackets, as in \[::1\]:8080"):
        split_address(text)


@needs_ipv6
@pytest.mark.parametrize(
    ("listen", "reached"),
    [
        (":", ["127.0.0.1", "::1"]),
        ("[::]:", ["127.0.0.1", "::1"]),
        ("0.0.0.0:", ["127.0.0.1"]),
        ("[::1]:", ["::1"]),
        ("127.0.0.1:", ["127.0.0.1"]),
    ],
)
async def test_without_a_host_both_families_are_served(listen: str, reached: list[str]) -> None:
    async with serving(listen=listen) as probes:
        answered = []
        for host in ("127.0.0.1", "::1"):
            with suppress(ConnectionError):
                if await probes.is_healthy(host):
                    answered.append(host)
        assert answered == reached


async def test_a_kernel_without_ipv6_is_served_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    make_socket = socket.socket

    def make(family: int = -1, *arguments: Any, **options: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make_socket(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", make)
    for listen in (":", "[::]:"):
        with open_socket(f"{listen}{free_port()}") as opened:
            assert opened.family == socket.AF_INET
            assert opened.getsockname()[0] == "0.0.0.0"


async def test_a_flood_of_pipelined_scrapes_costs_one_text_and_delays_no_probe() -> None:
    """Each connection gets one answer. `benchmarks.attack` measures how long the probes take."""
    async with serving(text=b"a 1\n" * 50_000) as probes:
        for _ in range(3):
            clients = [await probes.connect(GET_METRICS * 200) for _ in range(16)]
            assert await probes.is_healthy()
            answers = [[await client.read_status(), await client.read_status()] for client in clients]
            assert answers == [[200, 0]] * 16
        assert probes.renders == 1


async def test_the_text_is_written_anew_after_a_second_and_by_one_thread_at_a_time() -> None:
    now, written, may_end = [0.0], list[int](), threading.Event()

    def begin_render() -> Callable[[], bytes]:
        number = len(written)
        written.append(number)

        def write() -> bytes:
            assert may_end.wait(10)
            return str(number).encode()

        return write

    page = Page(begin_render, lambda: now[0])
    readers = [asyncio.create_task(page.read()) for _ in range(5)]
    await asyncio.sleep(0)
    now[0] += 5 * FRESH_SECONDS
    late = asyncio.create_task(page.read())
    await asyncio.sleep(0)
    readers[0].cancel()
    may_end.set()
    assert await asyncio.gather(*readers[1:], late) == [b"0"] * 5
    assert (await page.read(), await page.read(), written) == (b"1", b"1", [0, 1])
    now[0] += FRESH_SECONDS
    assert await page.read() == b"2"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET /hea",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
    ],
    ids=["no request", "half a request line", "half the headers", "half a body"],
)
async def test_a_slow_client_is_closed(data: bytes) -> None:
    async with serving(Listener(None, seconds=0.2, requests=1)) as probes:
        connection = await probes.connect(data)
        await asyncio.wait_for(connection.wait_closed(), 10)


def test_no_client_of_the_probes_has_longer_than_ten_seconds() -> None:
    assert build_listener()._seconds == STRANGER_SECONDS == 10.0


async def test_silent_connections_keep_no_probe_out() -> None:
    """The oldest one makes way at once."""
    async with serving() as probes:
        silent = [await probes.connect(b"GET /metr") for _ in range(MOST_CLIENTS)]
        assert await probes.is_healthy()
        await silent[0].wait_closed()
        more = [await probes.connect() for _ in range(3 * MOST_CLIENTS)]
        assert await probes.is_healthy()
        for connection in [*silent, *more[: 2 * MOST_CLIENTS]]:
            await connection.wait_closed()


async def test_a_connection_that_has_ended_takes_no_place() -> None:
    async with serving(Listener(None, most=3, grace=0.0, requests=1)) as probes:
        slow = await probes.connect(GET_HEALTH[:-2])
        for _ in range(20):
            assert await probes.is_healthy()
        slow.send(GET_HEALTH[-2:])
        assert await slow.read_status() == 200


async def test_a_client_that_does_not_read_holds_a_few_pieces_of_the_text(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does it fill the log when it goes away."""
    async with serving(text=b"a" * 20_000_000) as probes:
        for _ in range(5):
            await probes.connect(GET_METRICS)
        assert await probes.is_healthy()
        transports = [each for each in gc.get_objects() if type(each).__name__ == "_SelectorSocketTransport"]
        held = sum(each.get_write_buffer_size() for each in transports if not each.is_closing())
        assert 0 < held < 5 * 200_000
    assert caplog.text == ""


async def test_the_last_request_of_a_connection_closes_it() -> None:
    async with serving(Listener(None, requests=3)) as probes:
        connection = await probes.connect(GET_HEALTH * 5)
        assert [await connection.read_status() for _ in range(4)] == [200, 200, 200, 0]


async def test_pipelined_requests_take_turns_with_those_of_others() -> None:
    order = []

    async def note(request: web.Request) -> web.Response:
        order.append(request.path)
        return web.Response()

    app, port = web.Application(), free_port()
    app.add_routes([web.get("/{name}", note)])
    async with serve(app, f"127.0.0.1:{port}"):
        first, second = await Connection.open(port), await Connection.open(port)
        first.send(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
        second.send(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await second.read_status() == 200
        assert order.count("/first") < 50
        assert [await first.read_status() for _ in range(50)] == [200] * 50
        first.close()
        second.close()


# Files that may listen by themselves, and why their bounds are their own.
OTHER_LISTENERS = {
    "client/cluster/dashboard_forward.py": "looks whether a port is free, and does not listen",
    "client/ui/page_server.py": "uvicorn, on a person's own machine; its bounds are in client/ui/test_guard.py",
    "driver/head/metrics_server.py": "no aiohttp in users' images; its bounds are in test_metrics_server.py",
    "driver/mailbox/mailbox.py": "a Unix socket of the pod",
    "driver/ray/daemons.py": "looks for free ports, and does not listen",
    "local/addresses.py": "the same",
    "local/node/agent.py": "opens the socket that it serves by a Listener",
}
LISTENS = re.compile(
    r"create_server|start_server|TCPSite|SockSite|UnixSite|run_app|http\.server|socketserver|\.bind\(\(|\.listen\("
)


def test_every_listener_has_the_bounds() -> None:
    """A new one is served by `serve_within`, or has its own bounds and a test of them."""
    found = {str(path.relative_to(CODE)) for path in CODE.rglob("*.py") if LISTENS.search(path.read_text())}
    assert found - {"controller/serve.py"} <= OTHER_LISTENERS.keys()
    users = {path for path in CODE.rglob("*.py") if re.search(r"\bAppRunner\(|web\.Server\(", path.read_text())}
    assert {str(path.relative_to(CODE)) for path in users} == {"listener.py"}
