"""How long to wait before an attempt or a replacement: longer each time, never for ever."""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api.status import FailureStatus
from railhead.planning.classify import APPLICATION_BUDGET, STARTUP
from railhead.planning.observed import Observed, Refusal
from railhead.planning.status_write import parse_time

LIMIT_SECONDS = 300
STARTUP_LIMIT_SECONDS = 40  # with the tries before it: room that somebody has made is taken within a minute
REPLACEMENT_LIMIT_SECONDS = 60
REFUSED_LIMIT_SECONDS = 30
HELD_LIMIT_SECONDS = 10


def _grow(first: int, times: int, *, limit: int) -> int:
    """Seconds: twice as long each time, at most the limit."""
    return min(limit, first << min(max(times, 0), 10))


def attempt_delay_seconds(observed: Observed, failure: FailureStatus, *, committed: bool) -> int:
    restarts = observed.status.restarts
    if failure.class_ == STARTUP:
        return _grow(5, restarts.startup, limit=STARTUP_LIMIT_SECONDS)
    if failure.class_ in APPLICATION_BUDGET:
        return _grow(5, restarts.application, limit=LIMIT_SECONDS)
    if committed:
        return 0  # the cluster took a pod from a job that was doing well
    return _grow(2, restarts.without_progress, limit=LIMIT_SECONDS)


def next_attempt_at(observed: Observed, failure: FailureStatus, *, committed: bool) -> datetime:
    since = parse_time(failure.time) or observed.now
    since = min(since, observed.now)  # a time in the future (a jump of a clock) delays nothing
    return since + timedelta(seconds=attempt_delay_seconds(observed, failure, committed=committed))


def replacement_at(observed: Observed) -> datetime:
    """When lost workers may be replaced: at once after a deletion, later after a pod that fails by itself."""
    ended = [
        p.finished_at for p in observed.lost_workers if p.has_ended and p.finished_at and p.exit_code not in (137, 143)
    ]
    if not ended or observed.were_all_up:
        return observed.now
    delay = _grow(1, observed.status.round, limit=REPLACEMENT_LIMIT_SECONDS)
    return min(max(ended), observed.now) + timedelta(seconds=delay)


def refused_until(observed: Observed, refusal: Refusal, *, is_held: bool) -> datetime:
    """When what the API server has refused is tried again; `is_held`: other pods wait for it."""
    limit = HELD_LIMIT_SECONDS if is_held else REFUSED_LIMIT_SECONDS
    return min(refusal.at, observed.now) + timedelta(seconds=_grow(5, refusal.tries - 1, limit=limit))
