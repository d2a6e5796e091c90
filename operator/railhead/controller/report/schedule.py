"""Which job's report is written next: changes of state first, then checkpoints, then plain progress. Pure.

All jobs share a budget of writes per second, because a write stores the whole TrainJob in etcd again. The job that has
waited longest is first, and a class counts as a head start, so plain progress becomes rarer with more jobs, and
checkpoints do not.

What a report changes, the code of the job decides. So the namespaces in which reports wait have equal shares of the
budget: one that has used up its own is behind all others, whatever its reports change, and uses what these leave. And
a job that has changed its state less than ten seconds ago changes it as plain progress.

Jobs that change their state all the time cannot starve a checkpoint of their namespace: a change of state overtakes it
during the first second only, and no job has two of those in that second. So once two seconds have passed since its
job's last write, a checkpoint waits at most twice as long as one write of each job of its namespace takes, in the share
of the namespace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from railhead.api.parsed_spec import JobKey
from railhead.contract.report import SILENCE_SECONDS
from railhead.controller.expiring import Expiring

WRITES_AT_A_TIME = 8
PRECISION_SECONDS = 1e-6  # of a timer
# The budget that an idle operator saves up.
BURST_SECONDS = 0.2


class Urgency(IntEnum):
    """What a report changes in the status; the smallest is written first."""

    STATE = 0
    CHECKPOINT = 1
    PROGRESS = 2


# Between two writes for one job.
GAP_SECONDS = {Urgency.STATE: 1.0, Urgency.CHECKPOINT: 2.0, Urgency.PROGRESS: 2.0}
STATE_SECONDS = 10.0  # from one change of a job's state to the next that counts as one
# How long a report can be overtaken by those that come later and are more urgent.
PATIENCE_SECONDS = {Urgency.STATE: 0.0, Urgency.CHECKPOINT: GAP_SECONDS[Urgency.STATE], Urgency.PROGRESS: 600.0}


class QueuedWrite(NamedTuple):
    """A job that waits for a write: not before `at`, and then in the order of `turn`."""

    turn: float
    at: float
    urgency: Urgency


class WriteSchedule:
    """The jobs with a report to write, and the budget for all of them, a token bucket.

    It looks at all jobs once per write, so at most as often as the budget allows, and else at those in their gap only.
    """

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self._seconds_per_write = 1 / per_second
        self.monotonic = monotonic
        self._spent_until = -math.inf  # what the writes so far leave of the budget begins then
        self._wanted: dict[JobKey, QueuedWrite] = {}  # the oldest first
        self._writing: set[JobKey] = set()
        self._written = Expiring[JobKey, float](max(GAP_SECONDS.values()))  # when
        self._changed = Expiring[JobKey, bool](STATE_SECONDS)  # the jobs whose state was written lately
        self._used: dict[str, float] = {}  # by namespace, until when its share is used up
        self._reporting = Expiring[JobKey, bool](2 * SILENCE_SECONDS)
        self._namespaces = Expiring[str, Expiring[JobKey, bool]](2 * SILENCE_SECONDS)  # of these jobs, with the jobs

    def note_report(self, key: JobKey) -> float:
        """Returns the seconds until the job's next report of plain progress is of use.

        A running job reports at least every SILENCE_SECONDS, so those that did in twice that time share the budget: a
        job has an equal part of all of it, or of its namespace's share if that is more.
        """
        now = self.monotonic()
        self._reporting.put(key, True, now)
        of_all = self._reporting.count(now)
        of_namespace = self._count_reporting(key, now) * self._namespaces.count(now)
        seconds = min(of_all, of_namespace) * self._seconds_per_write
        return min(max(GAP_SECONDS[Urgency.PROGRESS], seconds), SILENCE_SECONDS)

    def _count_reporting(self, key: JobKey, now: float) -> int:
        """Notes the report in its namespace, and returns how many jobs report there."""
        known = self._namespaces.get(key.namespace, now) or Expiring[JobKey, bool](2 * SILENCE_SECONDS)
        known.put(key, True, now)
        self._namespaces.put(key.namespace, known, now)
        return known.count(now)

    def is_busy(self, key: JobKey) -> bool:
        """Returns whether the job waits for a write, or one is under way."""
        return key in self._wanted or key in self._writing

    def request_write(self, key: JobKey, urgency: Urgency) -> Urgency:
        """Asks for a write of the job's newest report, even if one is being written now; returns as what it counts."""
        now = self.monotonic()
        if urgency is Urgency.STATE and self._changed.get(key, now):
            urgency = Urgency.PROGRESS
        written = self._written.get(key, now)
        at = now if written is None else max(now, written + GAP_SECONDS[urgency])
        entry = QueuedWrite(at + PATIENCE_SECONDS[urgency], at, urgency)
        # A later report never delays what an earlier one has earned.
        self._wanted[key] = min(entry, self._wanted.get(key, entry))
        return urgency

    def take(self) -> JobKey | float:
        """Begins the next write and returns its job, or else the seconds until there may be one, without end until the
        next `want` or `done`."""
        if not self._wanted or len(self._writing) >= WRITES_AT_A_TIME:
            return math.inf
        now = self.monotonic()
        # A bucket that holds one write at least, however small the budget is.
        saved = max(0.0, BURST_SECONDS - self._seconds_per_write)
        if (seconds := self._spent_until - saved - now) > PRECISION_SECONDS:
            return seconds
        free = {key: entry for key, entry in self._wanted.items() if key not in self._writing}
        due = {key: entry for key, entry in free.items() if entry.at <= now + PRECISION_SECONDS}
        if not due:
            return min((entry.at - now for entry in free.values()), default=math.inf)
        # Namespaces within their share go first; the others use what these leave.
        within = {key: entry for key, entry in due.items() if self._used.get(key.namespace, now) <= now}
        choice = within or due
        key = min(choice, key=choice.__getitem__)
        self._begin_write(key, now)
        return key

    def _begin_write(self, key: JobKey, now: float) -> None:
        namespaces = {waiting.namespace for waiting in self._wanted}
        self._used = {namespace: until for namespace, until in self._used.items() if until > now}
        # Otherwise it uses what the others leave, which costs it nothing later.
        if key.namespace not in self._used:
            self._used[key.namespace] = now + self._seconds_per_write * len(namespaces)
        self._spent_until = max(self._spent_until, now) + self._seconds_per_write
        entry = self._wanted.pop(key)
        self._writing.add(key)
        self._written.put(key, now, now)
        if entry.urgency is Urgency.STATE:
            self._changed.put(key, True, now)

    def fail(self, key: JobKey) -> None:
        """Notes that the write has failed: a change of state in it is still to be written."""
        self._changed.pop(key)

    def done(self, key: JobKey) -> None:
        """Notes that the write has ended."""
        self._writing.discard(key)

    def drain(self) -> list[JobKey]:
        """Returns the jobs whose report is not known to be written, the most urgent first, and forgets them."""
        waiting = sorted(self._wanted, key=self._wanted.__getitem__)
        self._wanted.clear()
        return list(dict.fromkeys([*self._writing, *waiting]))
