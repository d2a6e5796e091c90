"""Which requests the page answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from railhead.client.ui.guard import MOST_CLIENTS, POLICY, Guard, Message

HOST = "127.0.0.1:8700"
Headers = dict[str, str]


class Inner:
    """The page, which counts what reaches it."""

    def __init__(self) -> None:
        self.clients = 0
        self.reached: list[str] = []

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"X-Frame", b"1")]})
        await send({"type": "http.response.body", "body": b"page"})

    def count(self) -> int:
        return self.clients


class Answer:
    def __init__(self, messages: list[Message]) -> None:
        self.type = messages[0]["type"]
        self.status = messages[0].get("status", messages[0].get("code"))
        self.headers: dict[str, str] = {
            key.decode().lower(): value.decode() for key, value in messages[0].get("headers", [])
        }


def ask(
    guard: Guard, path: str = "/", *, kind: str = "http", method: str = "GET", query: str = "", **headers: str
) -> Answer:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("no request has a body")

    named = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items() if value],
    }
    asyncio.run(guard(scope, receive, send))
    return Answer(sent)


@pytest.fixture
def page() -> Inner:
    return Inner()


@pytest.fixture
def guard(page: Inner) -> Guard:
    return Guard(page, page.count)


def log_in(guard: Guard) -> str:
    """Returns the cookie."""
    return ask(guard, query=f"token={guard.token}").headers["set-cookie"].partition(";")[0]


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(guard: Guard, page: Inner) -> None:
    answer = ask(guard, "/jobs/a/b", query=f"tab=logs&token={guard.token}&q=%26x")
    assert answer.status == 303
    assert answer.headers["location"] == "/jobs/a/b?tab=logs&q=%26x"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
    assert guard.token not in answer.headers["set-cookie"]
    assert page.reached == []


def test_the_cookie_opens_the_page(guard: Guard, page: Inner) -> None:
    answer = ask(guard, "/jobs/a/b", cookie=f"other=1; {log_in(guard)}")
    assert answer.status == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-frame"] == "1"
    assert page.reached == ["/jobs/a/b"]


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "///evil.example"])
def test_the_redirect_stays_on_this_host(guard: Guard, path: str) -> None:
    location = ask(guard, path, query=f"token={guard.token}").headers["location"]
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))


@pytest.mark.parametrize(
    ("kind", "headers", "query"),
    [
        ("http", {}, ""),
        ("http", {}, "token="),
        ("http", {}, "token=wrong"),
        ("http", {}, "token=%FF%FE"),
        ("http", {"cookie": "railhead-ui=x"}, ""),
        ("http", {"cookie": "\xff\xfe=;;;"}, ""),
        ("websocket", {"origin": f"http://{HOST}"}, ""),
    ],
)
def test_nothing_is_shown_without_the_cookie(
    guard: Guard, page: Inner, kind: str, headers: Headers, query: str
) -> None:
    for path in ("/", "/jobs/a/b", "/_nicegui/x.js", "/_nicegui_ws/socket.io/"):
        answer = ask(guard, path, kind=kind, query=query, **headers)
        assert answer.status in (403, 405, 1008)
    assert page.reached == []


def test_a_websocket_is_not_opened_by_the_token_alone(guard: Guard, page: Inner) -> None:
    answer = ask(guard, kind="websocket", query=f"token={guard.token}", origin=f"http://{HOST}")
    assert (answer.type, answer.status) == ("websocket.close", 1008)
    assert page.reached == []


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8700", "127.0.0.1.evil.example", "localhost.evil.example:80", "0.0.0.0:8700",
     "127.0.0.1:8700:1", "localhost:80x", "[::1].evil.example", "LOCALHOST\x00"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_another_name_of_this_machine_is_refused(guard: Guard, page: Inner, host: str, kind: str) -> None:
    answer = ask(guard, kind=kind, cookie=log_in(guard), host=host, origin=f"http://{host}" if host else "")
    assert answer.status in (403, 1008)
    assert page.reached == []


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:8700", "[::1]:8700", "localhost:9000", "localhost"])
def test_each_name_of_loopback_and_each_forwarded_port_is_taken(guard: Guard, page: Inner, host: str) -> None:
    cookie = log_in(guard)
    assert ask(guard, cookie=cookie, host=host).status == 200
    ask(guard, "/_nicegui_ws/socket.io/", kind="websocket", cookie=cookie, host=host, origin=f"http://{host}")
    assert len(page.reached) == 2


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "https://127.0.0.1:8700", "http://127.0.0.1"]
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_request_of_another_origin_is_refused(guard: Guard, page: Inner, origin: str, kind: str) -> None:
    answer = ask(guard, kind=kind, cookie=log_in(guard), origin=origin)
    assert answer.status in (403, 1008)
    assert page.reached == []


def test_a_websocket_needs_an_origin(guard: Guard, page: Inner) -> None:
    assert ask(guard, kind="websocket", cookie=log_in(guard)).status == 1008
    assert page.reached == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_port_cannot_load_this_one_in_secret(guard: Guard, site: str) -> None:
    cookie = log_in(guard)
    assert ask(guard, cookie=cookie, sec_fetch_site=site, sec_fetch_mode="no-cors").status == 403
    assert ask(guard, cookie=cookie, sec_fetch_site=site, sec_fetch_mode="navigate").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_no_request_can_change_anything(guard: Guard, page: Inner, method: str) -> None:
    assert ask(guard, method=method, cookie=log_in(guard)).status == 405
    assert page.reached == []


def test_the_socket_cannot_be_polled(guard: Guard, page: Inner) -> None:
    assert ask(guard, "/_nicegui_ws/socket.io/", cookie=log_in(guard)).status == 405
    assert page.reached == []


def test_pages_are_refused_while_too_many_are_open(guard: Guard, page: Inner) -> None:
    cookie = log_in(guard)
    page.clients = MOST_CLIENTS
    assert ask(guard, cookie=cookie).status == 503
    assert ask(guard, "/_nicegui/3.18/x.js", cookie=cookie).status == 200
    page.clients -= 1
    assert ask(guard, cookie=cookie).status == 200


def test_each_answer_has_the_policy(guard: Guard) -> None:
    refused = ask(guard)
    assert refused.headers["content-security-policy"] == POLICY
    assert "frame-ancestors 'none'" in POLICY
    assert "default-src 'none'" in POLICY


def test_two_sessions_do_not_share_a_cookie(page: Inner) -> None:
    first = Guard(page, page.count)
    second = Guard(page, page.count)
    assert first.token != second.token
    assert ask(second, cookie=log_in(first)).status == 403


def ask_and_leave(guard: Guard, cookie: str, message: Message) -> None:
    """Sends a request whose browser says this next."""

    async def send(_: Message) -> None:
        raise AssertionError("nobody is there")

    async def receive() -> Message:
        return message

    headers = [(b"host", HOST.encode()), (b"cookie", cookie.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": headers}
    asyncio.run(guard(scope, receive, send))


async def fail_without_answer(scope: Message, receive: Any, send: Any) -> None:
    """Does as Starlette does where the browser has left."""
    await receive()
    raise RuntimeError("No response returned.")


def test_a_browser_that_leaves_before_the_answer_is_no_error() -> None:
    guard = Guard(fail_without_answer, count_clients=int)
    ask_and_leave(guard, log_in(guard), {"type": "http.disconnect"})


def test_an_error_of_a_page_whose_browser_waits_is_raised() -> None:
    guard = Guard(fail_without_answer, count_clients=int)
    with pytest.raises(RuntimeError, match="No response"):
        ask_and_leave(guard, log_in(guard), {"type": "http.request"})
