"""Serves the job's metrics by plain HTTP to clients that the job's NetworkPolicy lets in (spec.metrics.port).

Any client may be hostile: each of a few threads serves one connection at a time, for a short time, and reads one
small request. The answer is computed at most once a second.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Callable, Optional

from railhead.driver.describe import never_raises
from railhead.driver.reporting.job_metrics import CONTENT_TYPE

THREADS = 4
BACKLOG = 16
REQUEST_BYTES = 8192
REQUEST_SECONDS, ANSWER_SECONDS = 2.0, 5.0
FRESH_SECONDS = 1.0


class MetricsServer:
    """Answers `GET /metrics` at an address with what `write` returns; everything else is an error.

    Raises OSError if the port is taken.
    """

    def __init__(self, host: str, port: int, write: Callable[[], str]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self._write = write
        self._lock = threading.Lock()
        self._written: Optional[bytes] = None
        self._written_at = 0.0

    def start(self) -> None:
        for number in range(THREADS):
            threading.Thread(target=self._serve, name=f"railhead-metrics-{number}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(FRESH_SECONDS)  # no file descriptor is free
                continue
            with connection, contextlib.suppress(OSError):
                request = _read_request(connection)
                connection.settimeout(ANSWER_SECONDS)
                connection.sendall(self._answer(request))

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _build_answer("404 Not Found", b"the only path is /metrics\n")
        if method != b"GET":
            return _build_answer("405 Method Not Allowed", b"the only method is GET\n")
        with self._lock:
            now = time.monotonic()
            if self._written is None or now - self._written_at >= FRESH_SECONDS:
                self._written, self._written_at = self._compute(), now
            written = self._written
        if not written:
            return _build_answer("500 Internal Server Error", b"the head's log has the error\n")
        return _build_answer("200 OK", written)

    def _compute(self) -> bytes:
        with never_raises("write the metrics"):
            return self._write().encode()
        return b""


def _read_request(connection: socket.socket) -> bytes:
    """Returns what has arrived when the head of the request ends, or its bound is reached. Raises OSError."""
    until, data = time.monotonic() + REQUEST_SECONDS, b""
    while b"\r\n\r\n" not in data and len(data) < REQUEST_BYTES:
        connection.settimeout(max(until - time.monotonic(), 0.001))
        part = connection.recv(REQUEST_BYTES - len(data))
        if not part:
            raise ConnectionError("the request has no end")
        data += part
    return data


def _build_answer(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
