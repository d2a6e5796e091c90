"""Serves the job's metrics by plain HTTP to clients that the job's NetworkPolicy lets in (spec.metrics.port).

Any client may be hostile: a connection brings one small request in a short time, and of too many connections the
oldest makes way. The answer is computed at most once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from typing import Callable, Dict, Optional

from railhead.driver.head.job_metrics import CONTENT_TYPE
from railhead.driver.messages.log import never_raises

MOST_CLIENTS = 128
# Also how many connections asyncio accepts at a time, so far below MOST_CLIENTS: else those that come at once would
# make way for each other before one is answered.
BACKLOG = 16
REQUEST_BYTES = 8192
REQUEST_SECONDS = 2.0
ANSWER_SECONDS = 5.0
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
        self._clients: Dict[asyncio.StreamWriter, None] = {}  # the oldest first
        self._written: Optional[bytes] = None
        self._written_at = 0.0

    def start(self) -> None:
        """Serves from a thread of its own, whatever the script does with the main thread."""
        threading.Thread(target=self._run, name="railhead-metrics", daemon=True).start()

    def _run(self) -> None:
        with never_raises("serve the metrics"):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._talk, sock=self._socket, limit=REQUEST_BYTES, backlog=BACKLOG)
        async with server:
            await server.serve_forever()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients[writer] = None
        if len(self._clients) > MOST_CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.transport.abort()
        try:
            with contextlib.suppress(OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
                request = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_SECONDS)
                # Else drain() returns while a part of the answer waits for its reader, without a limit of time.
                writer.transport.set_write_buffer_limits(0)
                writer.write(self._answer(request))
                await asyncio.wait_for(writer.drain(), ANSWER_SECONDS)
        finally:
            self._clients.pop(writer, None)
            writer.transport.abort()

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _build_answer("404 Not Found", b"the only path is /metrics\n")
        if method != b"GET":
            return _build_answer("405 Method Not Allowed", b"the only method is GET\n")
        now = time.monotonic()
        if self._written is None or now - self._written_at >= FRESH_SECONDS:
            self._written = self._compute()
            self._written_at = now
        if not self._written:
            return _build_answer("500 Internal Server Error", b"the head's log has the error\n")
        return _build_answer("200 OK", self._written)

    def _compute(self) -> bytes:
        with never_raises("write the metrics"):
            return self._write().encode()
        return b""


def _build_answer(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
