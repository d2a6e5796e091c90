"""Ports and loopback addresses that one process of this machine holds at a time, by lock files that end with it."""

from __future__ import annotations

import atexit
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

from railhead.local.private import make_private
from railhead.local.processes import try_lock

# Below the ephemeral ports of Linux: an outgoing connection could take a server's port before the server starts or
# restarts. Above the ports of Ray's workers and of the jobs' heads (`api.names.head_port`).
PORTS = range(30000, 32768)
TRIES = 100
NODE_ADDRESS = "127.0.0.1"


def hold(kind: str, name: str) -> IO[str] | None:
    """Holds the name until the file is closed; returns None if a process holds it already, this one included.

    Raises:
        LocalError: another user has made the folder, and could place links in it that lead to this user's files.
    """
    folder = Path(tempfile.gettempdir()) / f"railhead-{kind}-{os.getuid()}"
    make_private(folder, remedy="set TMPDIR to a folder of your own")
    file = (folder / name).open("w")
    if try_lock(file):
        return file
    file.close()
    return None


def free_port() -> int:
    """Returns a port that is free on every address: pods here have their own loopback addresses.

    It belongs to this process until it ends: another one that looks for a port does not get it, even while
    the server that is to use it has not started, or restarts.

    Raises:
        OSError: none of the ports tried is free.
        LocalError: the folder of the lock files cannot be used.
    """
    for port in random.sample(PORTS, TRIES):
        held = hold("ports", str(port))
        if held is None:
            continue
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:
                held.close()
                continue
        atexit.register(held.close)
        return port
    raise OSError(f"no free port among {TRIES} tried from {PORTS.start} to {PORTS.stop - 1}")


class AddressPool:
    """The addresses of a node's pods, in 127.0.0.0/8: a /24 that no other agent of this machine has."""

    def __init__(self) -> None:
        self._lock = self._hold_range()
        self._free = list(range(254, 0, -1))

    def take(self) -> str:
        """Returns an address. Raises RuntimeError when all 254 are in use."""
        if not self._free:
            raise RuntimeError("this node has no address left: it runs 254 pods")
        return f"{self.prefix}.{self._free.pop()}"

    def close(self) -> None:
        """Leaves the range to others."""
        self._lock.close()

    def give_back(self, address: str) -> None:
        self._free.insert(0, int(address.rsplit(".", 1)[1]))

    def _hold_range(self) -> IO[str]:
        for _ in range(1000):
            prefix = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
            lock = hold("addresses", prefix)
            if lock is not None:
                self.prefix = prefix
                return lock
        raise RuntimeError("1000 address ranges tried, and other agents of this machine have them all")
