"""A separate address for each pod, in 127.0.0.0/8. Two agents on one machine never share a /24."""

from __future__ import annotations

import random
from typing import IO

from railhead.local.claims import claim


class AddressPool:
    """Addresses 127.a.b.1 to 127.a.b.254 of a /24 that this process holds a lock on."""

    def __init__(self) -> None:
        self._lock = self._claim()
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
        for _ in range(1000):
            prefix = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
            lock = claim("addresses", prefix)
            if lock is not None:
                self.prefix = prefix
                return lock
        raise RuntimeError("1000 address ranges tried, and other agents of this machine have them all")
