"""Decides which requests reach the page: those of the browser that has the session's token, by one of the names of
loopback, and from the page itself. Plain ASGI, without NiceGUI.

Any site that the user visits can send requests to a port of this machine, and give its own name the address 127.0.0.1.
Such a request has another Host or another Origin, and never the cookie.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlencode

# ASGI's own types: messages and scopes are dictionaries by its specification.
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

MOST_CLIENTS = 32
TOKEN = "token"  # the parameter of the address that `railhead ui` prints
SOCKET_PATH = "/_nicegui_ws/"
OWN_PATH = "/_nicegui"  # scripts and styles; any other path is a page, which becomes a client
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# NiceGUI compiles templates in the browser, so scripts need 'unsafe-eval'. The policy keeps the page from loading
# anything from elsewhere and from being framed; that text stays text is up to the views.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NO_COOKIE = "Open the address that `railhead ui` has printed: it has the token of this session.\n"
NOT_LOOPBACK = "This page answers only to the names 127.0.0.1 and localhost.\n"
FROM_ELSEWHERE = "Another site has sent this request.\n"
READ_ONLY = "This page only reads.\n"
TOO_MANY = f"{MOST_CLIENTS} pages of this session are open; close one, and load this one again in a minute.\n"


class Guard:
    """The middleware around the page.

    Attributes:
        token: of the session; whoever sends it gets the cookie.
    """

    def __init__(self, app: App, count_clients: Callable[[], int]) -> None:
        self.token = secrets.token_urlsafe(32)
        self._app = app
        self._count_clients = count_clients
        self._cookie = secrets.token_urlsafe(32)
        # Browsers send a cookie to all ports of a host, so that two sessions need two names.
        self._cookie_name = f"railhead-ui-{secrets.token_hex(4)}"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._judge(scope)
        if refusal is not None:
            await _refuse(scope, send, *refusal)
            return
        if scope["type"] == "http" and self._has_token(scope):
            await self._give_cookie(scope, send)
            return
        if not self._has_cookie(scope):
            await _refuse(scope, send, 403, NO_COOKIE)
            return
        is_page = scope["type"] == "http" and not scope["path"].startswith(OWN_PATH)
        if is_page and self._count_clients() >= MOST_CLIENTS:
            await _refuse(scope, send, 503, TOO_MANY)
            return
        await self._answer_with_page(scope, receive, send)

    async def _answer_with_page(self, scope: Message, receive: Receive, send: Send) -> None:
        has_left = False

        async def receive_and_note() -> Message:
            nonlocal has_left
            message = await receive()
            has_left = has_left or message["type"] == "http.disconnect"
            return message

        try:
            await self._app(scope, receive_and_note, _add_headers(send))
        except RuntimeError:
            # Starlette raises it for a page that its browser has left before the answer. The server would print a
            # traceback on the user's terminal for each.
            if not has_left:
                raise

    def _judge(self, scope: Message) -> tuple[int, str] | None:
        """Returns the status and the text for a request that comes from elsewhere or would change something."""
        hosts = _read_all(scope, b"host")
        if len(hosts) != 1 or _strip_port(hosts[0]) not in LOOPBACK:
            return 403, NOT_LOOPBACK
        origins = _read_all(scope, b"origin")
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return 403, FROM_ELSEWHERE
        if scope["type"] == "websocket":
            # A browser always sends it with a websocket.
            if not origins:
                return 403, FROM_ELSEWHERE
            return None
        if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith(SOCKET_PATH):
            return 405, READ_ONLY
        # A page on another port of this machine counts as the same site, and its requests have the cookie.
        is_foreign = any(site in ("cross-site", "same-site") for site in _read_all(scope, b"sec-fetch-site"))
        if is_foreign and _read_all(scope, b"sec-fetch-mode") != ["navigate"]:
            return 403, FROM_ELSEWHERE
        return None

    def _has_token(self, scope: Message) -> bool:
        given = _read_query(scope).get(TOKEN, [])
        return any(secrets.compare_digest(each.encode(), self.token.encode()) for each in given)

    async def _give_cookie(self, scope: Message, send: Send) -> None:
        """Sends the browser to the same page without the token, which then is in no address that it keeps."""
        query = {name: values for name, values in _read_query(scope).items() if name != TOKEN}
        place = _quote_path(scope)
        if query:
            place += f"?{urlencode(query, doseq=True)}"
        cookie = f"{self._cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", place.encode()), (b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
        await _answer(send, 303, "", headers)

    def _has_cookie(self, scope: Message) -> bool:
        for header in _read_all(scope, b"cookie"):
            jar = SimpleCookie()
            try:
                jar.load(header)
            except CookieError:
                continue
            morsel = jar.get(self._cookie_name)
            if morsel is not None and secrets.compare_digest(morsel.value.encode(), self._cookie.encode()):
                return True
        return False


def _read_all(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _read_query(scope: Message) -> dict[str, list[str]]:
    return parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=64)


def _quote_path(scope: Message) -> str:
    """Returns the path as it came. One that begins with two slashes would lead to another host."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return "/" + raw.decode("latin-1").partition("?")[0].lstrip("/\\")


def _strip_port(host: str) -> str:
    name, mark, port = host.rpartition(":")
    if mark and port.isascii() and port.isdigit():
        return name
    return host


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = {name for name, _ in HEADERS}
            kept = [(name, value) for name, value in message.get("headers", []) if name.lower() not in ours]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return send_with_headers


async def _refuse(scope: Message, send: Send, status: int, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await _answer(send, status, text, [(b"cache-control", b"no-store")])


async def _answer(send: Send, status: int, text: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
    body = text.encode()
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers, *HEADERS]})
    await send({"type": "http.response.body", "body": body})
