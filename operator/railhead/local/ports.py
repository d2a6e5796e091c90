"""Ports for servers that receive their port number at start, and may be restarted with it."""

from __future__ import annotations

import atexit
import random
import socket

from railhead.local.claims import claim

# Below the ephemeral ports of Linux: an outgoing connection could take a server's port before the server starts or
# restarts. Above the ports of Ray's workers and of the jobs' heads (`api.names.head_port`).
PORTS = range(30000, 32768)
TRIES = 100


def free_port() -> int:
    """A port that is free on every address: pods here have their own loopback addresses.

    It belongs to this process until it ends: another one that looks for a port does not get it, even while
    the server that is to use it has not started, or restarts.

    Raises:
        OSError: none of the ports tried is free.
    """
    for port in random.sample(PORTS, TRIES):
        claimed = claim("ports", str(port))
        if claimed is None:
            continue
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:
                claimed.close()
                continue
        atexit.register(claimed.close)
        return port
    raise OSError(f"no free port among {TRIES} tried from {PORTS.start} to {PORTS.stop - 1}")
