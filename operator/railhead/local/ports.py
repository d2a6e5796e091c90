"""Ports for servers that are started by their number, and may be started again with it."""

from __future__ import annotations

import random
import socket

# Below what Linux gives to outgoing connections, which could take a server's port before it is started, or is
# started again; above the ports of Ray's workers and of the jobs' heads (`api.names.head_port`).
PORTS = range(30000, 32768)
TRIES = 100


def free_port() -> int:
    """A port that nobody has on any address: pods here have loopback addresses of their own.

    Raises:
        OSError: none of those that were tried is free.
    """
    for port in random.sample(PORTS, TRIES):
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port among {TRIES} tried from {PORTS.start} to {PORTS.stop - 1}")
