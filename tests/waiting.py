"""The one way in which tests wait for other components."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class NotInTime(AssertionError):
    """A condition did not hold in time; the message describes the state instead."""


def wait_until(
    what: str, ask: Callable[[], Any], *, seconds: float = 30.0, pause: float = 0.02, tell: Callable[[], str] = str
) -> Any:
    """Polls `ask` and returns its first true answer. Raises NotInTime with the description by `tell`."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if time.monotonic() >= deadline:
            raise NotInTime(f"{what}: not within {seconds:.0f} s\n{tell()}")
        time.sleep(pause)
    return answer
