"""The report endpoint under attack, over TLS on the loopback: each attack gets its answer, or the end of its
connection, and costs no other sender anything.

One scenario for `listener.py`, `tokens.py` and `server.py`: an attack passes through all three.
"""

from __future__ import annotations

import asyncio
import errno
import gzip
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from railhead import listener
from railhead.api.parsed_spec import JobKey
from railhead.contract.report import LIMIT_BYTES, PATH
from railhead.controller.report.authority import JobFacts, Speaker
from railhead.controller.report.certificate import present
from railhead.controller.report.server import REQUESTS_OF_A_POD, build_app
from railhead.controller.serve import serve
from railhead.listener import MOST_STRANGERS, Listener
from railhead.local.addresses import free_port
from railhead.pki import issue, make_ca
from railhead.planning.pod_view import PodView
from tests.model.faults import NOON
from tests.unit.builders import make_head, make_worker
from tests.unit.controller.connection import Connection
from tests.unit.controller.report.endpoint import STRANGE, Endpoint, body_of
from tests.unit.controller.report.facts import HEAD, encode, make_facts, make_token

NEVER = 3600.0
KEY = JobKey("default", "digits")
WORKER = make_worker(0)
SECOND = make_head(attempt=2)
ENDED = replace(HEAD, phase="Failed", exit_code=1)
GOOD_BODY = json.dumps(body_of()).encode()
OTHER_UID = "11111111-0000-0000-0000-000000000000"
OTHER_HEAD = make_head(name="other-head", uid="other-head-uid")
OTHER_TOKEN = make_token(Speaker("default", OTHER_HEAD.name, OTHER_HEAD.uid))
OTHER_BODY = json.dumps(body_of(name="other", uid=OTHER_UID)).encode()
ALG_NONE = f"{encode({'alg': 'none'})}.{make_token().split('.')[1]}."


@dataclass(frozen=True)
class Contexts:
    """Both ends of a TLS connection."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def contexts() -> Contexts:
    begin = datetime.now(UTC) - timedelta(hours=1)
    ca = make_ca("ca", now=begin, days=1)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    present(server, issue(ca, "server", now=begin, days=1, names=["127.0.0.1"]))
    return Contexts(server, ssl.create_default_context(cadata=ca.certificate))


class Attacked(Endpoint):
    """The endpoint as the operator serves it."""

    def __init__(self, contexts: Contexts, entrance: Listener, *, body_seconds: float) -> None:
        super().__init__(entrance, body_seconds=body_seconds)
        self.jobs[JobKey("default", "other")] = make_facts(OTHER_HEAD, uid=OTHER_UID)
        self.reviews.speakers[OTHER_TOKEN] = Speaker("default", OTHER_HEAD.name, OTHER_HEAD.uid)
        self.port = free_port()
        self._contexts = contexts
        self._opened: list[Connection] = []

    async def connect(self, *, is_tls: bool = True) -> Connection:
        context = self._contexts.client if is_tls else None
        connection = await Connection.open(self.port, context)
        self._opened.append(connection)
        return connection

    async def ask(self, *requests: bytes) -> list[int]:
        """The answers to requests that are sent at once, on one connection."""
        connection = await self.connect()
        connection.send(b"".join(requests))
        return [await connection.read_status() for _ in requests]

    def close(self) -> None:
        for connection in self._opened:
            connection.close()


def request_of(body: bytes = GOOD_BODY, *, token: str = "", headers: str = "") -> bytes:
    """A complete request; by default a good one."""
    lines = [f"POST {PATH} HTTP/1.1", "Host: railhead", f"Authorization: Bearer {token or make_token()}"]
    lines += [f"Content-Length: {len(body)}"] if "ength:" not in headers and "coding:" not in headers else []
    return "\r\n".join([*lines, *filter(None, [headers])]).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def serving(
    contexts: Contexts,
    *,
    most: int = MOST_STRANGERS,
    seconds: float = NEVER,
    grace: float = 0.0,
    body_seconds: float = NEVER,
) -> AsyncIterator[Attacked]:
    attacked = Attacked(
        contexts, Listener(contexts.server, most=most, seconds=seconds, grace=grace), body_seconds=body_seconds
    )
    app = build_app(attacked.handler, attacked.counted.append)
    async with serve(app, f"127.0.0.1:{attacked.port}", listener=attacked.listener):
        try:
            yield attacked
        finally:
            attacked.close()


@pytest.fixture
async def attacked(contexts: Contexts) -> AsyncIterator[Attacked]:
    async with serving(contexts) as attacked:
        yield attacked


def bound_to(pod: PodView, /, **changes: Any) -> str:
    return make_token(replace(Speaker("default", pod.name, pod.uid), **changes))


@pytest.mark.parametrize(
    ("token", "code"),
    [
        pytest.param(make_token(jti="forged"), 401, id="forged, naming the live head"),
        pytest.param(make_token().rpartition(".")[0] + ".c2ln", 401, id="another signature"),
        pytest.param(ALG_NONE, 401, id="alg none"),
        pytest.param(ALG_NONE + "c2ln", 401, id="alg none with a signature"),
        pytest.param(make_token(exp=NOON.timestamp() - 61), 401, id="expired"),
        pytest.param(make_token(exp=-1), 401, id="expired before 1970"),
        pytest.param(make_token(exp=float("nan")), 401, id="expires NaN"),
        pytest.param(make_token(exp=float("inf")), 401, id="never expires"),
        pytest.param(make_token(exp=10**400), 401, id="expires after a huge number"),
        pytest.param(make_token(aud=["https://kubernetes.default.svc"]), 401, id="foreign audience"),
        pytest.param(make_token(aud=[]), 401, id="no audience"),
        pytest.param(make_token(STRANGE), 403, id="other namespace"),
        pytest.param(OTHER_TOKEN, 403, id="other job's head"),
        pytest.param(bound_to(WORKER), 403, id="worker pod"),
        pytest.param(bound_to(HEAD, pod_uid="deleted"), 403, id="deleted pod of the same name"),
        pytest.param(bound_to(HEAD, pod="other"), 403, id="the head's uid, another name"),
        pytest.param(make_token(names={"namespace": "default"}), 401, id="bound to no pod"),
        pytest.param(make_token(names={"namespace": "default", "pod": {"name": ["a"], "uid": {}}}), 401, id="no names"),
        pytest.param("a." + encode([[]]) + ".c", 401, id="claims are no object"),
        pytest.param("a." + "W1tb" * 1000 + ".c", 401, id="deeply nested claims"),
        pytest.param("a.\x1b[2J.c", 401, id="escape sequence"),
        pytest.param("x" * 8000, 401, id="large"),
        pytest.param("." * 8000, 401, id="only dots"),
    ],
)
async def test_a_bad_token_is_rejected(attacked: Attacked, token: str, code: int) -> None:
    assert await attacked.ask(request_of(token=token)) == [code if "\x1b" not in token else 400]
    assert attacked.writer.reports == []
    assert await attacked.ask(request_of()) == [202]


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        pytest.param(make_facts(HEAD, SECOND, attempt=2), {}, id="the old attempt's head, about its attempt"),
        pytest.param(make_facts(HEAD, SECOND, attempt=2), {"attempt": 2}, id="the old attempt's head, about the new"),
        pytest.param(make_facts(), {"attempt": 10**400}, id="a huge attempt"),
        pytest.param(make_facts(), {"attempt": -1}, id="a negative attempt"),
        pytest.param(make_facts(ENDED), {}, id="the head has ended"),
    ],
)
async def test_an_old_attempt_is_rejected(attacked: Attacked, facts: JobFacts, changes: dict[str, Any]) -> None:
    attacked.jobs[KEY] = facts
    assert await attacked.ask(request_of(json.dumps(body_of(**changes)).encode())) == [409]
    assert (attacked.reviews.reviewed, attacked.writer.reports) == ([], [])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"name": "other"}, id="a job that does not exist"),
        pytest.param({"uid": "older"}, id="an earlier job of the name"),
        pytest.param({"name": "../../digits"}, id="a path as name"),
        pytest.param({"name": "digits\u0000"}, id="a null in the name"),
        pytest.param({"name": "\x1b]0;title\x07"}, id="a terminal's title as name"),
    ],
)
async def test_another_jobs_report_is_rejected(attacked: Attacked, changes: dict[str, Any]) -> None:
    assert await attacked.ask(request_of(json.dumps(body_of(**changes)).encode())) == [404]
    assert (attacked.reviews.reviewed, attacked.writer.reports) == ([], [])


DEEP = b'{"a":' * 12_000 + b"1" + b"}" * 500


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00" * 1000, id="zeros"),
        pytest.param(b"\xff\xfe" + GOOD_BODY, id="UTF-16"),
        pytest.param(b"\xef\xbb\xbf" + GOOD_BODY, id="byte order mark"),
        pytest.param(GOOD_BODY + GOOD_BODY, id="two reports"),
        pytest.param(GOOD_BODY[:-1], id="cut"),
        pytest.param(b'{"name": "\xc3\x28"}', id="invalid UTF-8"),
        pytest.param(b'{"name": "\\ud800"}', id="half a surrogate pair"),
        pytest.param(b'{"name": "\x1b[2J"}', id="raw control characters"),
        pytest.param(b"[" * LIMIT_BYTES, id="deep lists"),
        pytest.param(DEEP, id="deep objects"),
        pytest.param(b'{"time": ' + DEEP + b"}", id="a deep field"),
        pytest.param(b'{"reports": NaN}', id="NaN"),
        pytest.param(b'{"reports": Infinity}', id="Infinity"),
        pytest.param(b'{"reports": -Infinity}', id="-Infinity"),
        pytest.param(b'{"reports": 1e999}', id="1e999"),
        pytest.param(b'{"reports": 1' + b"0" * 60_000 + b"}", id="a huge number"),
        pytest.param(json.dumps(body_of(metrics={"loss": float("nan")})).encode(), id="a metric NaN as a number"),
        pytest.param(json.dumps(body_of(metrics={"loss": [[[]]]})).encode(), id="a metric that is a list"),
        pytest.param(json.dumps(body_of(lost_pods={"0": "p"})).encode(), id="an object for a list"),
        pytest.param(gzip.compress(b" " * 2**20 + GOOD_BODY), id="compressed"),
    ],
)
async def test_a_malformed_body_is_rejected(attacked: Attacked, body: bytes) -> None:
    headers = f"Content-Encoding: gzip\r\nContent-Length: {len(body)}" if body[:2] == b"\x1f\x8b" else ""
    assert await attacked.ask(request_of(body, headers=headers)) == [400]
    assert (attacked.reviews.reviewed, attacked.writer.reports) == ([], [])
    assert await attacked.ask(request_of()) == [202]


HEAD_LINES = f"POST {PATH} HTTP/1.1\r\nHost: railhead\r\n"
CHUNKED = f"{HEAD_LINES}Authorization: Bearer {make_token()}\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        pytest.param(b"\x00\x01\x02\r\n\r\n", {400}, id="no HTTP"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}, id="HTTP/2"),
        pytest.param(b"GET /v1/report\r\n\r\n", {400, 405}, id="HTTP/0.9"),
        pytest.param(b"GET " + b"/" * 20_000 + b" HTTP/1.1\r\n\r\n", {400, 414}, id="a long path"),
        pytest.param(b"GET /\x1b[2J HTTP/1.1\r\nHost: a\r\n\r\n", {400, 404}, id="an escape sequence in the path"),
        pytest.param(HEAD_LINES.encode() + b"X: " + b"a" * 20_000 + b"\r\n\r\n", {400}, id="a long header"),
        pytest.param(HEAD_LINES.encode() + b"X: a\r\n" * 5000 + b"\r\n", {400}, id="many headers"),
        pytest.param(HEAD_LINES.encode() + b"X: a\x00b\r\n\r\n", {400}, id="a null in a header"),
        pytest.param(HEAD_LINES.encode() + b"Content-Length: -1\r\n\r\n", {400}, id="a negative length"),
        pytest.param(HEAD_LINES.encode() + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", {400}, id="two lengths"),
        pytest.param(CHUNKED.encode() + b"Content-Length: 5\r\n\r\n", {400}, id="chunks and a length"),
        pytest.param(CHUNKED.encode() + b"\r\nzz\r\n", {400}, id="no chunk size"),
        pytest.param(CHUNKED.encode() + b"\r\n-1\r\n", {400}, id="a negative chunk size"),
        pytest.param(b"CONNECT railhead:443 HTTP/1.1\r\nHost: a\r\n\r\n", {404, 405}, id="CONNECT"),
        pytest.param(
            f"GET {PATH} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode(),
            {405},
            id="an upgrade",
        ),
        pytest.param(request_of(headers="Authorization: Bearer other"), {202, 400, 401}, id="two tokens"),
        pytest.param(request_of(headers="Expect: nonsense"), {417}, id="an unknown expectation"),
    ],
)
async def test_a_malformed_request_ends_with_its_connection(
    attacked: Attacked, data: bytes, codes: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert (await attacked.ask(data))[0] in codes
        assert await attacked.ask(request_of()) == [202]
    assert caplog.text.isascii() and "\x1b" not in caplog.text


async def test_a_large_body_is_not_read_to_its_end(attacked: Attacked) -> None:
    assert await attacked.ask(request_of(b" " * (LIMIT_BYTES + 1))) == [413]
    assert await attacked.ask(request_of(b" " * LIMIT_BYTES + GOOD_BODY, headers=f"Content-Length: {2**40}")) == [413]
    assert attacked.reviews.reviewed == []


async def test_endless_chunks_end_with_the_connection(attacked: Attacked) -> None:
    connection = await attacked.connect()
    connection.send(CHUNKED.encode() + b"\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n")
    for _ in range(LIMIT_BYTES // 1024):
        connection.send(b"400\r\n" + b" " * 1024 + b"\r\n")
    assert await connection.read_status() == 413
    await connection.wait_closed()


@pytest.mark.parametrize(
    ("is_tls", "data"),
    [
        pytest.param(False, b"", id="no packet"),
        pytest.param(False, b"\x16\x03\x01", id="half a TLS greeting"),
        pytest.param(True, b"", id="no request"),
        pytest.param(True, b"POST /v1/rep", id="half a request line"),
        pytest.param(True, HEAD_LINES.encode() + b"X: a\r\n", id="slow headers"),
        pytest.param(True, request_of(headers=f"Content-Length: {LIMIT_BYTES}"), id="a slow body"),
        pytest.param(True, CHUNKED.encode() + b"\r\n5\r\n[", id="slow chunks"),
        pytest.param(True, CHUNKED.encode() + b"\r\n1;" + b"e" * 100_000, id="an endless chunk extension"),
        pytest.param(True, request_of(token="x") + request_of(token="y")[:-5], id="a slow second request"),
    ],
)
async def test_a_slow_stranger_is_closed(
    contexts: Contexts, is_tls: bool, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(contexts, seconds=0.3, body_seconds=NEVER) as attacked:
        with suppress(ConnectionError, ssl.SSLError):  # a slow machine needs all of the time for its handshake
            connection = await attacked.connect(is_tls=is_tls)
            connection.send(data)
            await connection.wait_closed()
    assert caplog.text == "", "nobody can fill the log"


async def test_plain_http_is_closed(attacked: Attacked) -> None:
    connection = await attacked.connect(is_tls=False)
    connection.send(request_of())
    await connection.wait_closed()
    assert attacked.counted == []


async def test_a_slow_body_ends_with_the_connection(contexts: Contexts) -> None:
    """Also that of a driver."""
    async with serving(contexts, seconds=NEVER, body_seconds=0.1) as attacked:
        connection = await attacked.connect()
        connection.send(request_of(headers=f"Content-Length: {LIMIT_BYTES}"))
        assert await connection.read_status() == 408
        await connection.wait_closed()


async def test_a_driver_keeps_its_connection(contexts: Contexts) -> None:
    """It is no stranger any more, whose time ends or who makes way."""
    async with serving(contexts, most=3) as attacked:
        driver, silent = await attacked.connect(), await attacked.connect()
        driver.send(request_of())
        assert await driver.read_status() == 202
        assert len(attacked.listener._strangers) == 1
        for _ in range(5):
            await attacked.connect()
        await silent.wait_closed()
        driver.send(request_of())
        assert await driver.read_status() == 202


async def test_a_pod_has_one_connection(attacked: Attacked) -> None:
    first, second = await attacked.connect(), await attacked.connect()
    for connection in (first, second):
        connection.send(request_of())
        assert await connection.read_status() == 202
    await first.wait_closed()
    second.send(request_of())
    assert await second.read_status() == 202


async def test_the_oldest_strangers_make_way(contexts: Contexts) -> None:
    async with serving(contexts, most=3, seconds=NEVER) as attacked:
        connections = [await attacked.connect() for _ in range(10)]
        for connection in connections[:7]:
            await connection.wait_closed()
        connections[-1].send(request_of())
        assert await connections[-1].read_status() == 202


async def test_too_many_open_files_stop_nothing(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept, errors = asyncio.get_running_loop().sock_accept, [OSError(errno.EMFILE, "Too many open files")]

    async def fail_once(listening: socket.socket) -> tuple[socket.socket, Any]:
        if errors:
            raise errors.pop()
        return await accept(listening)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", fail_once)
    monkeypatch.setattr(listener, "PAUSE_SECONDS", 0.0)
    async with serving(contexts) as attacked:
        assert await attacked.ask(request_of()) == [202]
    assert "cannot accept a connection: [Errno 24] Too many open files" in caplog.text


async def test_more_drivers_than_strangers_may_be_all_get_in(contexts: Contexts) -> None:
    """All at once, as after a restart of the operator; nobody takes the place of another in its first second."""
    async with serving(contexts, most=5, seconds=NEVER, grace=NEVER) as attacked:

        async def drive(number: int) -> None:
            head = make_head(name=f"h{number}", uid=f"u{number}")
            speaker = Speaker("default", head.name, head.uid)
            token, uid = make_token(speaker), f"{number:08}-0000-0000-0000-000000000000"
            attacked.jobs[JobKey("default", f"j{number}")] = make_facts(head, uid=uid)
            attacked.reviews.speakers[token] = speaker
            request = request_of(json.dumps(body_of(name=f"j{number}", uid=uid)).encode(), token=token)
            code = 0
            while code != 202:
                with suppress(ConnectionError, ssl.SSLError):
                    code = (await attacked.ask(request))[0]

        await asyncio.gather(*(drive(number) for number in range(60)))
        assert {report.name for report in attacked.writer.reports} == {f"j{number}" for number in range(60)}


async def test_many_connections_are_few_and_delay_no_other_job(contexts: Contexts) -> None:
    """Each brings half a body with a forged token that names the head of one job. `benchmarks.attack` opens 1,000."""
    forged, most, connections = make_token(jti="forged"), 50, list[Connection]()
    half = request_of(b" " * (LIMIT_BYTES // 2), token=forged, headers=f"Content-Length: {LIMIT_BYTES}")
    async with serving(contexts, most=most) as attacked:
        driver = await attacked.connect()
        for _ in range(10):
            driver.send(request_of(OTHER_BODY, token=OTHER_TOKEN))
            assert await driver.read_status() == 202
            for _ in range(20):
                connections.append(await attacked.connect())
                connections[-1].send(half)
            assert len(attacked.listener._strangers) <= most and len(attacked.handler._open) <= 1
        for connection in connections[: 200 - most]:
            await connection.wait_closed()
        assert attacked.reviews.reviewed == [OTHER_TOKEN] * 10


async def test_no_body_is_read_of_a_token_that_names_no_head(attacked: Attacked) -> None:
    """It is answered before the body is there."""
    connection = await attacked.connect()
    connection.send(request_of(token=bound_to(WORKER), headers=f"Content-Length: {LIMIT_BYTES}"))
    assert await asyncio.wait_for(connection.read_status(), 10) == 403


async def test_only_a_few_bodies_of_a_pod_are_read_at_a_time(attacked: Attacked) -> None:
    """Of tokens that are not known: those of its driver, once accepted, are read."""
    assert await attacked.ask(request_of()) == [202]
    slow = request_of(token=make_token(jti="forged"), headers=f"Content-Length: {LIMIT_BYTES}")
    codes = [await attacked.connect() for _ in range(REQUESTS_OF_A_POD + 1)]
    for connection in codes:
        connection.send(slow)
    done, waiting = await asyncio.wait(
        [asyncio.create_task(connection.read_status()) for connection in codes], return_when=asyncio.FIRST_COMPLETED
    )
    assert [task.result() for task in done] == [429]
    assert await attacked.ask(request_of()) == [202]
    attacked.close()
    await asyncio.wait(waiting)


async def test_pipelined_requests_are_answered_in_order(attacked: Attacked) -> None:
    bad = request_of(token="no-token")
    assert await attacked.ask(*[bad] * 50, request_of(), bad) == [401] * 50 + [202, 401]
    assert len(attacked.writer.reports) == 1
