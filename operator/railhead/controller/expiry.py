"""Times by key, in the order of time, such that only recent ones are kept."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def drop_until(times: dict[Key, float], limit: float) -> None:
    """Drops the entries up to this time, and looks at no other but the next one."""
    while times and times[oldest := next(iter(times))] <= limit:
        del times[oldest]
