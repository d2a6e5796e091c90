"""Shared children that were created a moment ago: with many jobs at once, each would send the same ConfigMap again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

# Somebody may delete one by hand, which nothing here watches: then it is missing for no longer than this.
VALID = timedelta(seconds=2)


class RecentChildren:
    """By namespace and name."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._made: dict[tuple[str, str], datetime] = {}

    def note(self, namespace: str, name: str) -> None:
        """It exists now."""
        self._made[namespace, name] = self._now()

    def forget(self, namespace: str, name: str) -> None:
        self._made.pop((namespace, name), None)

    def has(self, namespace: str, name: str) -> bool:
        made = self._made.get((namespace, name))
        if made is not None and not timedelta() <= self._now() - made < VALID:
            self.forget(namespace, name)
            return False
        return made is not None
