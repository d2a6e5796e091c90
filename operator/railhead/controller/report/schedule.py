"""Which job's report is written next: changes of state first, then checkpoints, then plain progress. Pure.

All jobs share a budget of writes per second, because a write stores the whole TrainJob in etcd again. The job that has
waited longest is first, and a class counts as a head start, so plain progress becomes rarer with more jobs, and
checkpoints do not.

Jobs that change their state all the time cannot starve a checkpoint: a change of state overtakes it during the first
second only, and no job has two of those in that second. So once two seconds have passed since its job's last write, a
checkpoint waits at most twice as long as one write of each job takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from railhead.api.job import JobKey
from railhead.contract.report import SILENCE_SECONDS
from railhead.controller.expiring import Expiring

WRITES_AT_A_TIME = 8
PRECISION_SECONDS = 1e-6  # of a timer
BURST_SECONDS = 0.2  # the budget that an idle operator saves up


class Urgency(IntEnum):
    """What a report changes in the status; the smallest is written first."""

    STATE = 0
    CHECKPOINT = 1
    PROGRESS = 2


# Between two writes for one job.
GAP_SECONDS = {Urgency.STATE: 1.0, Urgency.CHECKPOINT: 2.0, Urgency.PROGRESS: 2.0}
# How long a report can be overtaken by those that come later and are more urgent.
PATIENCE_SECONDS = {Urgency.STATE: 0.0, Urgency.CHECKPOINT: GAP_SECONDS[Urgency.STATE], Urgency.PROGRESS: 600.0}


class Entry(NamedTuple):
    """A job that waits for a write: not before `at`, and then in the order of `turn`."""

    turn: float
    at: float


class WriteSchedule:
    """The jobs with a report to write, and the budget for all of them, a token bucket.

    It looks at all jobs once per write, so at most as often as the budget allows, and else at those in their gap only.
    """

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self._seconds_per_write = 1 / per_second
        self.monotonic = monotonic
        self._spent_until = -math.inf  # what the writes so far leave of the budget begins then
        self._wanted: dict[JobKey, Entry] = {}  # the oldest first
        self._writing: set[JobKey] = set()
        self._written = Expiring[JobKey, float](max(GAP_SECONDS.values()))  # when
        self._reporting = Expiring[JobKey, None](2 * SILENCE_SECONDS)

    def note_report(self, key: JobKey) -> float:
        """Returns the seconds until the job's next report of plain progress is of use.

        A running job reports at least every SILENCE_SECONDS, so those that did in twice that time share the budget.
        """
        now = self.monotonic()
        self._reporting.put(key, None, now)
        share = self._reporting.count(now) * self._seconds_per_write
        return min(max(GAP_SECONDS[Urgency.PROGRESS], share), SILENCE_SECONDS)

    def is_busy(self, key: JobKey) -> bool:
        """Whether the job waits for a write, or one is under way."""
        return key in self._wanted or key in self._writing

    def want(self, key: JobKey, urgency: Urgency) -> None:
        """Asks for a write of the job's newest report, even if one is being written now."""
        now = self.monotonic()
        written = self._written.get(key, now)
        at = now if written is None else max(now, written + GAP_SECONDS[urgency])
        entry = Entry(at + PATIENCE_SECONDS[urgency], at)
        self._wanted[key] = min(entry, self._wanted.get(key, entry))

    def take(self) -> JobKey | float:
        """Begins the next write and returns its job, or else the seconds until there may be one, without end until the
        next `want` or `done`."""
        if not self._wanted or len(self._writing) >= WRITES_AT_A_TIME:
            return math.inf
        now = self.monotonic()
        saved = max(0.0, BURST_SECONDS - self._seconds_per_write)
        if (seconds := self._spent_until - saved - now) > PRECISION_SECONDS:
            return seconds
        free = {key: entry for key, entry in self._wanted.items() if key not in self._writing}
        due = {key: entry for key, entry in free.items() if entry.at <= now + PRECISION_SECONDS}
        if not due:
            return min((entry.at - now for entry in free.values()), default=math.inf)
        key = min(due, key=due.__getitem__)
        self._spent_until = max(self._spent_until, now) + self._seconds_per_write
        del self._wanted[key]
        self._writing.add(key)
        self._written.put(key, now, now)
        return key

    def done(self, key: JobKey) -> None:
        """Notes that the write has ended."""
        self._writing.discard(key)

    def drain(self) -> list[JobKey]:
        """Returns the jobs whose report is not known to be written, the most urgent first, and forgets them."""
        waiting = sorted(self._wanted, key=self._wanted.__getitem__)
        self._wanted.clear()
        return list(dict.fromkeys([*self._writing, *waiting]))
