"""A separate address for each pod, in 127.0.0.0/8. Two agents on one machine never share a /24."""

from __future__ import annotations

import fcntl
import os
import random
import tempfile
from pathlib import Path
from typing import IO


class AddressPool:
    """Addresses 127.a.b.1 to 127.a.b.254 of a /24 that this process holds a lock on."""

    def __init__(self) -> None:
        self._lock: IO[str] = self._claim()
        self._free = list(range(254, 0, -1))

    def take(self) -> str:
        """An address. Raises RuntimeError when all 254 are in use."""
        if not self._free:
            raise RuntimeError("this node has no address left: it runs 254 pods")
        return f"{self.prefix}.{self._free.pop()}"

    def close(self) -> None:
        """Leaves the range to others."""
        self._lock.close()

    def give_back(self, address: str) -> None:
        self._free.insert(0, int(address.rsplit(".", 1)[1]))

    def _claim(self) -> IO[str]:
        folder = Path(tempfile.gettempdir()) / f"railhead-addresses-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        for _ in range(1000):
            prefix = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
            lock = (folder / prefix).open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            self.prefix = prefix
            return lock
        raise RuntimeError(f"no free address range; see {folder}")
