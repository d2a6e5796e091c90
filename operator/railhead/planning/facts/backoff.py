"""Computes delays that double each time."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from railhead.api.attempts import Attempt
from railhead.api.status import JobStatus
from railhead.planning.facts.reasons import PARTIAL_START, RELEASED
from railhead.planning.job import Job
from railhead.planning.observed import Observed, Rejection

QUOTA_FIRST_SECONDS = 10
# Jobs that return within the same minute take a part of the nodes each, and hold them for half an hour again.
PARTIAL_START_FIRST_SECONDS = 300
RELEASED_LIMIT_SECONDS = 600
REFUSED_LIMIT_SECONDS = 60
REJECTED_FIRST_SECONDS = 5
REJECTED_LIMIT_SECONDS = 30
HELD_LIMIT_SECONDS = 10


def grow(first: int, times: int, *, limit: int) -> int:
    """Returns seconds that double each time, up to the limit."""
    # The shift is bounded, as the number of times is not, and would make an integer of any size.
    return min(limit, first << min(max(times, 0), 10))


def rejected_until(observed: Observed, rejection: Rejection, *, is_held: bool) -> datetime:
    """Returns when to retry what the API server has rejected; `is_held`: other pods wait for it."""
    limit = REJECTED_LIMIT_SECONDS
    if is_held:
        limit = HELD_LIMIT_SECONDS
    delay = grow(REJECTED_FIRST_SECONDS, rejection.tries - 1, limit=limit)
    return min(rejection.at, observed.now) + timedelta(seconds=delay)


def released_delay_seconds(job: Job, reason: str) -> float:
    """Returns the delay after the current attempt released its pods: it doubles with each one in a row, up to 600 s.

    Half of it depends on the job's uid and the attempt. Otherwise jobs that took a part each would release it together,
    return together, and take a part each again.
    """
    # A digest instead of randomness: planning is pure, and each pass must come to the same delay.
    digest = sha256(f"{job.uid}/{job.attempt}".encode()).digest()
    part = int.from_bytes(digest[:4], "big") / 2**32
    times = sum(attempt.number < job.attempt for attempt in _list_released(job.status))
    first = QUOTA_FIRST_SECONDS
    if reason == PARTIAL_START:
        # A job that holds its nodes for a short time only need not stay away from them for longer.
        held = job.spec.partial_start_deadline_seconds
        first = max(min(held, PARTIAL_START_FIRST_SECONDS), QUOTA_FIRST_SECONDS)
    return grow(first, times, limit=RELEASED_LIMIT_SECONDS) * (1 + part) / 2


def _list_released(status: JobStatus) -> list[Attempt]:
    """Returns the current attempt and those before it that released their pods, up to one that trained."""
    row = []
    for attempt in reversed(status.attempts or ()):
        if attempt.number < status.attempt and attempt.reason not in RELEASED:
            break
        row.append(attempt)
        # An attempt that trained had all that it needed, so the row of waiting ends with it.
        if attempt.running_time is not None:
            break
    return row


def find_released_since(status: JobStatus) -> str | None:
    """Returns since when the job has waited for what other jobs have: the start of the first attempt in a row that
    released its pods, or of the current one."""
    starts = [attempt.start_time for attempt in _list_released(status) if attempt.running_time is None]
    if starts:
        return starts[-1]
    return None
