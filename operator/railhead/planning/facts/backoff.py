"""How long to wait before an attempt, a replacement or a retried create: longer each time, up to a limit."""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api.status import FailureStatus, Restarts
from railhead.contract.failure import FailureClass, Payer
from railhead.contract.times import parse_time
from railhead.planning.facts.failure_from_pod import KILLED_CODES
from railhead.planning.facts.worker_losses import count_losses, find_out_of_memory
from railhead.planning.job import Job
from railhead.planning.observed import Observed, Rejection

REPLACEMENT_LIMIT_SECONDS = 60
OUT_OF_MEMORY_FIRST_SECONDS = 10
REJECTED_LIMIT_SECONDS = 30
HELD_LIMIT_SECONDS = 10


def grow(first: int, times: int, *, limit: int) -> int:
    """Seconds: doubled each time, up to the limit."""
    return min(limit, first << min(max(times, 0), 10))


def attempt_delay_seconds(restarts: Restarts, kind: FailureClass, *, committed: bool) -> int:
    """`committed`: the lost attempt has committed a checkpoint."""
    policy = kind.policy
    if committed and policy.backoff.is_skipped_after_commit:
        return 0  # the cluster took a pod from a job that was making progress
    times = {Payer.APPLICATION: restarts.application, Payer.STARTUP: restarts.startup}
    return grow(policy.backoff.first, times.get(policy.payer, restarts.without_progress), limit=policy.backoff.limit)


def next_attempt_at(observed: Observed, failure: FailureStatus, *, committed: bool) -> datetime:
    since = parse_time(failure.time) or observed.now
    since = min(since, observed.now)  # a time in the future (a clock jump) delays nothing
    delay = attempt_delay_seconds(observed.status.restarts, FailureClass.parse(failure.class_), committed=committed)
    return since + timedelta(seconds=delay)


def replacement_at(job: Job) -> datetime:
    """When lost workers may be replaced: at once after a deletion, later after a pod that failed by itself, and later
    each time after one that was OOM-killed."""
    killed = find_out_of_memory(job)
    if killed is not None and killed.finished_at is not None:
        delay = grow(OUT_OF_MEMORY_FIRST_SECONDS, count_losses(job).out_of_memory, limit=REPLACEMENT_LIMIT_SECONDS)
        return min(killed.finished_at, job.now) + timedelta(seconds=delay)
    ended = [
        pod.finished_at
        for pod in job.workers.lost
        if pod.has_ended and pod.finished_at and pod.exit_code not in KILLED_CODES
    ]
    if not ended or job.were_all_up:
        return job.now
    delay = grow(1, job.status.round, limit=REPLACEMENT_LIMIT_SECONDS)
    return min(max(ended), job.now) + timedelta(seconds=delay)


def rejected_until(observed: Observed, rejection: Rejection, *, is_held: bool) -> datetime:
    """When to retry what the API server has rejected; `is_held`: other pods wait for it."""
    limit = HELD_LIMIT_SECONDS if is_held else REJECTED_LIMIT_SECONDS
    return min(rejection.at, observed.now) + timedelta(seconds=grow(5, rejection.tries - 1, limit=limit))
