"""Serves the page on loopback, in the event loop of the command."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import uvicorn
from fastapi import FastAPI
from nicegui import Client, app, ui

from railhead.client.exit_codes import ClientError
from railhead.client.ui.guard import TOKEN, App, Guard
from railhead.client.ui.look import STYLE
from railhead.client.ui.page_context import build_context
from railhead.client.ui.page_source import PageSource
from railhead.client.ui.routes import register_pages
from railhead.client.ui.storage_source import StorageSource
from railhead.together import run_together

HOST = "127.0.0.1"
MESSAGE_BYTES = 1 << 20  # from a browser
# NiceGUI gives a browser two fifths of it to answer a ping, and by default that is 2 s. A browser that draws charts on
# a busy machine may need longer; then the page would load again, and what its viewer has clicked meanwhile is lost.
RECONNECT_SECONDS = 20.0
FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#3949ab"/>'
    '<path d="M9 24V8h8a5 5 0 0 1 1 9.9L24 24h-4.600l-5.400-6H13v6z M13 12v3.500h3.500a1.750 1.750 0 0 0 0-3.500z" '
    'fill="#fff"/></svg>'
)


def open_port(port: int) -> socket.socket:
    """Returns a socket that listens on loopback; port 0 = any. Raises ClientError if the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        # So that a browser may connect as soon as the address is printed.
        listener.listen()
    except OSError as error:
        listener.close()
        raise ClientError(f"cannot listen on {HOST}:{port}: {error.strerror}; choose another --port") from None
    return listener


async def serve_page(
    source: PageSource, listener: socket.socket, say: Callable[[str], None], storages: Sequence[StorageSource] = ()
) -> None:
    """Serves until it is cancelled or interrupted; `say` gets the address, which has the token."""
    site = build_context(source, storages)
    register_pages(site)
    ui.add_css(STYLE, shared=True)
    # A websocket only: the other way would need requests that change something.
    app.config.socket_io_js_transports = ["websocket"]
    inner = FastAPI(openapi_url=None)
    ui.run_with(
        inner,
        title="Railhead",
        favicon=FAVICON,
        dark=None,
        binding_refresh_interval=None,
        message_history_length=0,
        reconnect_timeout=RECONNECT_SECONDS,
        tailwind=False,
        show_welcome_message=False,
        gzip_middleware_factory=None,  # over loopback, compressing takes longer than the bytes that it saves
    )
    guard = Guard(_forget_types(inner), count_clients)
    config = uvicorn.Config(
        guard,
        log_level="error",
        access_log=False,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=MESSAGE_BYTES,
        timeout_graceful_shutdown=1,
        server_header=False,
        proxy_headers=False,
    )
    port = listener.getsockname()[1]
    say(f"http://{HOST}:{port}/?{TOKEN}={guard.token}")
    await run_together(uvicorn.Server(config).serve(sockets=[listener]), site.jobs.run())


def count_clients() -> int:
    """Returns the number of pages that are open, or were loaded in the last minute."""
    return len(Client.instances)


def _forget_types(inner: FastAPI) -> App:
    """Returns the same app. ASGI's types are the same in Starlette and in the guard, under other names."""

    async def call(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await inner(scope, receive, send)

    return call
