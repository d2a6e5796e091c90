"""Which job's report is written next: changes of state first, then checkpoints, then plain progress. Pure.

All jobs share a budget of writes per second, because a write stores the whole TrainJob in etcd again. The job that has
waited longest is first, and a class counts as a head start, so plain progress becomes rarer with more jobs, and
checkpoints do not.

Jobs that change their state all the time cannot starve a checkpoint: a change of state overtakes it during the first
second only, and no job has two of those in that second. So once two seconds have passed since its job's last write, a
checkpoint waits at most twice as long as one write of each job takes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from railhead.api.job import JobKey
from railhead.contract.report import SILENCE_SECONDS
from railhead.controller.expiry import drop_until

WRITES_AT_A_TIME = 8
PRECISION_SECONDS = 1e-6
BURST_SECONDS = 0.2  # the budget that an idle operator saves up


class Urgency(IntEnum):
    """What a report changes in the status; the smallest is written first."""

    STATE = 0
    CHECKPOINT = 1
    PROGRESS = 2


# Between two writes for one job.
GAP_SECONDS = {Urgency.STATE: 1.0, Urgency.CHECKPOINT: 2.0, Urgency.PROGRESS: 2.0}
LONGEST_GAP_SECONDS = max(GAP_SECONDS.values())
# How long a report can be overtaken by those that come later and are more urgent.
PATIENCE_SECONDS = {Urgency.STATE: 0.0, Urgency.CHECKPOINT: GAP_SECONDS[Urgency.STATE], Urgency.PROGRESS: 600.0}


class Entry(NamedTuple):
    """A job that waits for a write: not before `at`, and then in the order of `turn`."""

    turn: float
    number: int
    at: float
    key: JobKey


class WriteSchedule:
    """The jobs with a report to write. Each operation costs the logarithm of their number at most."""

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._monotonic = monotonic
        self._saved = self._burst = max(1.0, per_second * BURST_SECONDS)
        self._saved_at = monotonic()
        self._wanted: dict[JobKey, Entry] = {}  # the valid entry of each job
        self._later: list[tuple[float, Entry]] = []  # by `at`
        self._due: list[Entry] = []
        self._writing: set[JobKey] = set()
        self._written: dict[JobKey, float] = {}  # the oldest first
        self._heard: dict[JobKey, float] = {}  # the oldest first
        self._numbers = count()

    def hear(self, key: JobKey) -> float:
        """A driver reported; the seconds until its next report of plain progress is of use.

        A running job reports at least every SILENCE_SECONDS, so those heard for twice as long share the budget.
        """
        now = self._monotonic()
        self._heard.pop(key, None)
        self._heard[key] = now
        drop_until(self._heard, now - 2 * SILENCE_SECONDS)
        return min(max(GAP_SECONDS[Urgency.PROGRESS], len(self._heard) / self._per_second), SILENCE_SECONDS)

    def is_busy(self, key: JobKey) -> bool:
        """The job waits for a write, or one is under way."""
        return key in self._wanted or key in self._writing

    def want(self, key: JobKey, urgency: Urgency) -> None:
        """The job's newest report is to be written, even if one is being written now."""
        now = self._monotonic()
        at = max(now, self._written.get(key, now - LONGEST_GAP_SECONDS) + GAP_SECONDS[urgency])
        entry = Entry(at + PATIENCE_SECONDS[urgency], next(self._numbers), at, key)
        if key not in self._wanted or entry < self._wanted[key]:
            self._wanted[key] = entry
            self._enter(entry)

    def take(self) -> JobKey | None:
        """The job to write for now; its write begins. None: see `wait_seconds`."""
        now = self._monotonic()
        self._sort(now)
        if not self._due or len(self._writing) >= WRITES_AT_A_TIME or self._missing_seconds(now) > 0:
            return None
        key = heappop(self._due).key
        self._saved -= 1
        del self._wanted[key]
        self._writing.add(key)
        self._written.pop(key, None)
        self._written[key] = now
        drop_until(self._written, now - LONGEST_GAP_SECONDS)
        return key

    def done(self, key: JobKey) -> None:
        """The write has ended."""
        self._writing.discard(key)
        if key in self._wanted:
            self._enter(self._wanted[key])

    def wait_seconds(self) -> float | None:
        """When to call `take` again; None: after the next `want` or `done`."""
        now = self._monotonic()
        self._sort(now)
        if len(self._writing) >= WRITES_AT_A_TIME:
            return None
        if self._due:
            return self._missing_seconds(now)
        return self._later[0][0] - now if self._later else None

    def drain(self) -> list[JobKey]:
        """The jobs whose report is not known to be written, the most urgent first. Nothing is scheduled any more."""
        waiting = [entry.key for entry in sorted(self._wanted.values())]
        self._wanted.clear()
        return list(dict.fromkeys([*self._writing, *waiting]))

    def _enter(self, entry: Entry) -> None:
        if entry.key not in self._writing:
            heappush(self._later, (entry.at, entry))

    def _sort(self, now: float) -> None:
        """Moves what is due; the earlier entry of a job that became more urgent is void."""
        while self._later and (self._later[0][0] <= now or self._is_void(self._later[0][1])):
            _, entry = heappop(self._later)
            if not self._is_void(entry):
                heappush(self._due, entry)
        while self._due and self._is_void(self._due[0]):
            heappop(self._due)

    def _is_void(self, entry: Entry) -> bool:
        return self._wanted.get(entry.key) is not entry

    def _missing_seconds(self, now: float) -> float:
        """Until the budget allows one more write; a timer rings at a time of limited precision."""
        self._saved = min(self._burst, self._saved + (now - self._saved_at) * self._per_second)
        self._saved_at = now
        seconds = (1 - self._saved) / self._per_second
        return seconds if seconds > PRECISION_SECONDS else 0.0
