"""A node that has only the logs of pods: what a kubelet answers to the API server, from lines that a test writes.

As a kubelet does, it begins with the newest file of a log, continues with a newer one where the log is rotated while
it is read, and counts `sinceTime` in whole seconds.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

AT_ONCE = 500  # lines


@dataclass
class File:
    """A file of a log."""

    lines: list[tuple[int, str]] = field(default_factory=list)  # nanoseconds since 1970 and text


class PodLog:
    """The log of one pod's container. Its methods are for the test's threads."""

    def __init__(self) -> None:
        self.file = File()
        self.has_ended = False
        self._lock = threading.Lock()
        self.breaks_after: int | None = None  # lines of the next answer

    def write(self, texts: Sequence[str]) -> None:
        with self._lock:
            now = time.time_ns()
            self.file.lines.extend((now, text) for text in texts)

    def rotate(self) -> None:
        """Begins a new file; a reader of the old one finishes that first, and a new reader does not see it."""
        with self._lock:
            self.file = File()


class LogNode:
    """The server.

    Attributes:
        port: of its HTTPS.
        asked: the queries so far.
    """

    def __init__(self, pki: Path) -> None:
        self.port = 0
        self.logs: dict[str, PodLog] = {}
        self.asked: list[dict[str, str]] = []
        self._pki = pki
        self._loop = asyncio.new_event_loop()
        self._streams: set[asyncio.BaseTransport] = set()

    @contextmanager
    def serve(self) -> Iterator[None]:
        started = threading.Event()
        thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(started),))
        thread.start()
        try:
            assert started.wait(20)
            yield
        finally:
            self._loop.call_soon_threadsafe(self._stopped.set)
            thread.join()
            self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        self._stopped = asyncio.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pki / "node.crt", self._pki / "node.key")
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = int(runner.addresses[0][1])
        started.set()
        await self._stopped.wait()
        assert runner.server is not None
        for connection in runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()  # the loop ends before TLS would have said goodbye
        await runner.cleanup()
        await asyncio.sleep(0)  # in which an aborted transport closes its socket

    def break_streams(self) -> None:
        """Ends all answers in the middle, as a kubelet that is killed."""
        self._loop.call_soon_threadsafe(self._break)

    def _break(self) -> None:
        for transport in self._streams:
            transport.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        log = self.logs[request.match_info["pod"]]
        since = int(datetime.fromisoformat(request.query.get("sinceTime", "1970-01-01T00:00:00Z")).timestamp()) * 10**9
        limit, log.breaks_after = log.breaks_after, None
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        assert request.transport is not None
        self._streams.add(request.transport)
        try:
            await self._send(log, response, since, limit, is_following=request.query.get("follow") == "true")
            if limit is not None:
                request.transport.close()
                return response
            await response.write_eof()
        except ConnectionResetError:
            pass  # by the test, or the API server is gone
        finally:
            self._streams.discard(request.transport)
        return response

    async def _send(
        self, log: PodLog, response: web.StreamResponse, since: int, limit: int | None, *, is_following: bool
    ) -> None:
        file, place = log.file, 0
        while True:
            newest, has_ended = log.file, log.has_ended  # before the lines are read
            while lines := file.lines[place : place + AT_ONCE]:
                place += len(lines)
                wanted = [format_line(nanoseconds, text) for nanoseconds, text in lines if nanoseconds >= since]
                if limit is not None:
                    await response.write("".join(wanted[:limit])[:-3].encode())
                    return
                await response.write("".join(wanted).encode())
            if file is not newest:
                file, place = newest, 0
            elif not is_following or has_ended:
                return
            else:
                await asyncio.sleep(0.02)


def format_line(nanoseconds: int, text: str) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z {text}\n"
