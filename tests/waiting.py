"""The one way in which tests wait for what others do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class NotInTime(AssertionError):
    """Something was awaited in vain; the text holds what was there instead."""


def wait_until(
    what: str, ask: Callable[[], Any], *, seconds: float = 30.0, pause: float = 0.02, tell: Callable[[], str] = str
) -> Any:
    """The first answer that is true; asks again and again. Raises NotInTime with what `tell` says."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        if time.monotonic() >= deadline:
            raise NotInTime(f"{what}: not within {seconds:.0f} s\n{tell()}")
        time.sleep(pause)
    return answer
