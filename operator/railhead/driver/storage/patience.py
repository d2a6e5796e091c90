"""Tries again what the storage cannot do for a moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, TypeVar

from railhead.driver.errors import Unreachable
from railhead.driver.storage.error_messages import is_passing

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0  # seconds

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """`tell` receives each error that is tried again; `seconds` bounds the tries, not one of them."""

    tell: Callable[[Exception], None]
    seconds: float = 120.0
    longest: float = LONGEST_PAUSE
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def call(self, action: Callable[[], T]) -> T:
        """Raises what no retry can fix at once, and anything else after `seconds`."""
        deadline, pause = self.monotonic() + self.seconds, FIRST_PAUSE
        while True:
            try:
                return action()
            except Exception as error:
                if not (isinstance(error, Unreachable) or is_passing(error)) or self.monotonic() + pause > deadline:
                    raise
                self.tell(error)
            self.sleep(pause)
            pause = min(pause * 2, self.longest)
