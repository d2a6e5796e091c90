"""A work queue: each key is processed by one worker at a time, failures back off, keys can be woken later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
FIRST_BACKOFF_SECONDS = 0.25
LAST_BACKOFF_SECONDS = 60.0


class Timer(Protocol):
    """A call that `call_later` has scheduled."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class KeyedQueue(Generic[Key]):
    """Keys that are due. Adding a waiting key does nothing; one added while in progress, or in the pause after that, is
    processed again."""

    def __init__(self, call_later: CallLater, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._call_later = call_later
        self._monotonic = monotonic
        self._due: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: dict[Key, float] = {}  # since when; the oldest first
        self._working: set[Key] = set()
        self._pausing: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, Timer] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Makes the key due now."""
        # A second pass at the same time would act on the same view, and each would undo or repeat the other.
        if key in self._working or key in self._pausing:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = self._monotonic()
            self._due.put_nowait(key)

    @property
    def depth(self) -> int:
        """Keys that are due and not in progress."""
        return len(self._waiting)

    @property
    def oldest_seconds(self) -> float:
        """Returns for how long the first of them has waited; 0 if there is none."""
        return self._monotonic() - next(iter(self._waiting.values()), self._monotonic())

    def wake(self, key: Key, seconds: float) -> None:
        """Makes the key due after `seconds`; a later call replaces an earlier one."""
        self._cancel(key)
        self._timers[key] = self._call_later(max(seconds, 0.0), partial(self._wake_getter, key))

    async def get(self) -> Key:
        """Returns the next key; it is in progress until `done`."""
        key = await self._due.get()
        del self._waiting[key]
        self._working.add(key)
        return key

    def done(self, key: Key, *, pause: float = 0.0) -> None:
        """Ends its pass; the next one begins after `pause` seconds at the earliest."""
        self._working.discard(key)
        if pause > 0:
            self._pausing.add(key)
            self._call_later(pause, partial(self._end_pause, key))
        else:
            self._end_pause(key)

    def _end_pause(self, key: Key) -> None:
        self._pausing.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def fail(self, key: Key, *, at_least: float = 0.0) -> float:
        """Schedules a retry with exponential backoff; returns the delay in seconds."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = max(at_least, min(LAST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * (1 << min(count, 16))))
        self.wake(key, delay)
        return delay

    def succeed(self, key: Key) -> None:
        self._failures.pop(key, None)

    def forget(self, key: Key) -> None:
        """Drops the key's timer and backoff: its job is gone. What was added during the pass stays: it may be about an
        object that the job has left."""
        self._cancel(key)
        self._failures.pop(key, None)

    def _wake_getter(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
