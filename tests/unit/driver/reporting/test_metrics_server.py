"""The metrics by HTTP: one path, and clients that send nothing, too much or garbage keep no other one out."""

from __future__ import annotations

import http.client
import socket
from contextlib import ExitStack, closing

import pytest

from railhead.driver.reporting import metrics_server
from railhead.driver.reporting.metrics_server import THREADS, MetricsServer


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
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 0.2)
    with ExitStack() as stack:
        for _ in range(3 * THREADS):  # they stay open and send no more
            client = stack.enter_context(open_connection(server))
            try:
                client.sendall(sent)
            except OSError:
                pass  # the server has closed the connection
        assert get(server)[0] == 200
    assert source.calls == 1


def test_a_port_that_is_taken_is_an_error(server: MetricsServer) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", server.port, lambda: "")
