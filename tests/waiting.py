"""The one way in which tests wait for other components."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# Each question costs an API server, etcd and the test 6 ms of processor time, which what it waits for needs too.
SHORTEST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
SHARE = 0.1


class NotInTime(AssertionError):
    """A condition did not hold in time; the message describes the state instead."""


def wait_until(
    what: str, ask: Callable[[], Any], *, seconds: float = 30.0, pause: float = 0.0, tell: Callable[[], str] = str
) -> Any:
    """Polls `ask` and returns its first true answer. Raises NotInTime with the description by `tell`.

    Without `pause`, the pause between two questions is a tenth of the time that it has waited: late by no more.
    """
    began = time.monotonic()
    while not (answer := ask()):
        waited = time.monotonic() - began
        if waited >= seconds:
            raise NotInTime(f"{what}: not within {seconds:.0f} s\n{tell()}")
        time.sleep(pause or min(max(SHARE * waited, SHORTEST_PAUSE), LONGEST_PAUSE))
    return answer
