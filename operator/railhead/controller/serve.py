"""Serves the operator's applications (probes, metrics and reports) at host:port, each by a `Listener`."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from railhead.controller.config import split_address
from railhead.listener import BACKLOG, Listener, serve_within


def open_socket(listen: str) -> socket.socket:
    """Listens at host:port; without a host at every address of the machine, in IPv6 and IPv4 as far as it has them.

    Raises:
        OSError: the address is not the machine's, or the port is taken.
    """
    address = split_address(listen)
    if address.host:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = found[0]
        return socket.create_server(place, family=family, backlog=BACKLOG)
    # A kernel without IPv6 has no socket for both families.
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    return socket.create_server(("", address.port), backlog=BACKLOG)


@asynccontextmanager
async def serve(app: web.Application, listen: str, *, listener: Listener | None = None) -> AsyncIterator[None]:
    """Serves the application at host:port within the listener's bounds, while the context lasts.

    By default it is plain HTTP.
    """
    with open_socket(listen) as listening:
        async with serve_within(listener or Listener(None), app, listening):
            yield
