"""The metrics by HTTP: one path, and clients that send nothing, too much or garbage keep no other one out."""

from __future__ import annotations

import http.client
import socket
from contextlib import ExitStack, closing, suppress

import pytest

from railhead.driver.head import metrics_server
from railhead.driver.head.metrics_server import MOST_CLIENTS, MetricsServer
from tests.waiting import wait_until


class Source:
    """Counts how often the text is computed."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None

    def write(self) -> str:
        self.calls += 1
        if self.error:
            raise self.error
        return f"calls {self.calls}\n"


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source, monkeypatch: pytest.MonkeyPatch) -> MetricsServer:
    monkeypatch.setattr(metrics_server, "FRESH_SECONDS", 0.0)
    server = MetricsServer("127.0.0.1", 0, source.write)
    server.start()
    return server


def get(server: MetricsServer, path: str = "/metrics", *, method: str = "GET") -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def open_connection(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def test_metrics_are_at_one_path(server: MetricsServer) -> None:
    assert get(server) == (200, "calls 1\n")
    assert get(server, "/metrics?debug=1") == (200, "calls 2\n")
    assert [get(server, path)[0] for path in ("/", "/metrics/../etc/passwd", "/debug")] == [404, 404, 404]
    assert get(server, method="POST")[0] == 405


def test_the_text_is_computed_at_most_once_a_second(
    server: MetricsServer, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "FRESH_SECONDS", 3600.0)
    assert [get(server) for _ in range(5)] == [(200, "calls 1\n")] * 5
    assert source.calls == 1


def test_an_error_ends_one_answer_only(server: MetricsServer, source: Source) -> None:
    source.error = ValueError("password=hunter2")
    status, text = get(server)
    assert (status, "hunter2" in text) == (500, False)
    source.error = None
    assert get(server) == (200, "calls 2\n")


@pytest.mark.parametrize("sent", [b"", b"\x00\xff\n", b"GET /metrics HTTP/1.1\r\n", b"x" * 100_000])
def test_what_is_no_request_gets_no_metrics_and_holds_up_nothing(
    server: MetricsServer, source: Source, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    # A scrape that waits for the end of the others has no answer within the time of `get`.
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 600.0)
    with ExitStack() as stack:
        for _ in range(16):  # they stay open and send no more
            client = stack.enter_context(open_connection(server))
            try:
                client.sendall(sent)
            except OSError:
                pass  # the server has closed the connection
        assert get(server)[0] == 200
    assert source.calls == 1


def test_the_oldest_of_too_many_connections_makes_way(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # None ends for its own lateness, however busy the machine is.
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 600.0)
    with ExitStack() as stack:
        clients = [stack.enter_context(open_connection(server)) for _ in range(MOST_CLIENTS + 16)]
        assert get(server)[0] == 200
        assert is_closed(clients[0])
        clients[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            clients[-1].recv(1)


def test_a_connection_without_a_request_ends(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 0.2)
    with open_connection(server) as client:
        assert is_closed(client)


def test_a_client_that_does_not_read_its_answer_is_let_go(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "ANSWER_SECONDS", 0.2)
    size = 64 << 20  # more than the kernel's buffers take
    server = MetricsServer("127.0.0.1", 0, lambda: "x" * size)
    server.start()
    with open_connection(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        wait_until("the server gives up", lambda: server._written is not None and not server._clients)
        read = 0
        with suppress(ConnectionError):
            while data := client.recv(1 << 20):
                read += len(data)
        assert read < size


def is_closed(client: socket.socket) -> bool:
    """Waits for its end."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_a_port_that_is_taken_is_an_error(server: MetricsServer) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", server.port, lambda: "")
