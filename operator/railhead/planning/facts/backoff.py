"""How long to wait before an attempt, a replacement or a retried create: longer each time, up to a limit."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from railhead.api.status import FailureStatus
from railhead.contract.failure import FailureClass, Payer
from railhead.contract.times import parse_time
from railhead.planning.facts.budgets import count_failures, find_payer, is_progress
from railhead.planning.facts.disruptions import is_disruption
from railhead.planning.facts.failure_from_pod import KILLED_CODES, classify_pod
from railhead.planning.facts.reasons import NODE_REFUSED_POD, RELEASED
from railhead.planning.facts.worker_losses import (
    count_losses,
    count_refusals,
    find_own_fault,
    find_refused,
    is_refusal,
)
from railhead.planning.job import Job
from railhead.planning.observed import Observed, Rejection
from railhead.planning.pod_view import PodView

REPLACEMENT_LIMIT_SECONDS = 60
OWN_FAULT_FIRST_SECONDS = 10
REJECTED_LIMIT_SECONDS = 30
HELD_LIMIT_SECONDS = 10
RELEASED_LIMIT_SECONDS = 600
REFUSED_LIMIT_SECONDS = 60


def grow(first: int, times: int, *, limit: int) -> int:
    """Seconds: doubled each time, up to the limit."""
    return min(limit, first << min(max(times, 0), 10))


def released_delay_seconds(job: Job, times: int) -> float:
    """After an attempt that released its pods: up to 5, 10, 20, ... 600 s, of which half depends on the job's uid and
    the attempt, so that jobs that released together do not return together."""
    part = int.from_bytes(sha256(f"{job.uid}/{job.attempt}".encode()).digest()[:4], "big") / 2**32
    return grow(5, times - 1, limit=RELEASED_LIMIT_SECONDS) * (1 + part) / 2


def attempt_delay_seconds(job: Job, failure: FailureStatus, *, committed: int) -> float:
    """`committed`: index of the run's newest checkpoint, -1 = none."""
    line = job.status.start_line
    if line is not None and line.released and failure.reason in RELEASED:
        return released_delay_seconds(job, line.released)
    backoff, status = FailureClass.parse(failure.class_).policy.backoff, job.status
    if backoff.is_skipped_after_commit and is_progress(job, committed):
        return 0  # the cluster took a pod from a job that was making progress
    if failure.reason == NODE_REFUSED_POD:
        return grow(1, status.restarts.startup, limit=REFUSED_LIMIT_SECONDS)
    times = {
        Payer.APPLICATION: count_failures(job, committed=committed),
        Payer.STARTUP: status.restarts.startup,
        Payer.IGNORED: 0 if is_progress(job, committed) else status.all_disruptions.attempts,
        Payer.DISRUPTION: status.all_disruptions.attempts,
    }
    return grow(backoff.first, times.get(find_payer(failure), status.restarts.without_progress), limit=backoff.limit)


def next_attempt_at(job: Job, failure: FailureStatus, *, committed: int) -> datetime:
    since = parse_time(failure.time) or job.now
    since = min(since, job.now)  # a time in the future (a clock jump) delays nothing
    return since + timedelta(seconds=attempt_delay_seconds(job, failure, committed=committed))


def replacement_at(job: Job) -> datetime:
    """When lost workers may be replaced: at once after a deletion or a disruption, later after a pod that failed by
    itself, and later each time after one that the job itself may be at fault for, or that a node refused."""
    if is_refusal(job):
        return _refused_until(job)
    faulty = find_own_fault(job)
    ended_at = _find_end(faulty, job.now) if faulty is not None else None
    if ended_at is not None:
        delay = grow(OWN_FAULT_FIRST_SECONDS, count_losses(job).own_fault, limit=REPLACEMENT_LIMIT_SECONDS)
        return ended_at + timedelta(seconds=delay)
    failed = [pod for pod in job.workers.lost if pod.has_ended and not _was_stopped(pod)]
    ended = [at for pod in failed if (at := _find_end(pod, job.now)) is not None]
    if not ended or job.were_all_up:
        return job.now
    return max(ended) + timedelta(seconds=grow(1, count_losses(job).rounds, limit=REPLACEMENT_LIMIT_SECONDS))


def _refused_until(job: Job) -> datetime:
    """At once after the first refusal in a row, then 1, 2, 4, ... 60 s after the refused pod was created: the kubelet
    does not say when it refused it."""
    known = count_refusals(job)
    created = [min(pod.created_at, job.now) for pod in find_refused(job) if pod.created_at]
    if known == 0 or not created:
        return job.now
    return max(created) + timedelta(seconds=grow(1, known - 1, limit=REFUSED_LIMIT_SECONDS))


def _was_stopped(pod: PodView) -> bool:
    """By the cluster or a person, so that another pod may be fine at once."""
    failure = classify_pod(pod)
    return pod.exit_code in KILLED_CODES or is_disruption(failure.class_, failure.reason)


def _find_end(pod: PodView, now: datetime) -> datetime | None:
    """When it ended, by its node's clock. For one that is fast it has not ended yet: then since its creation."""
    at = pod.finished_at
    return at if at is None or at <= now else pod.created_at


def rejected_until(observed: Observed, rejection: Rejection, *, is_held: bool) -> datetime:
    """When to retry what the API server has rejected; `is_held`: other pods wait for it."""
    limit = HELD_LIMIT_SECONDS if is_held else REJECTED_LIMIT_SECONDS
    return min(rejection.at, observed.now) + timedelta(seconds=grow(5, rejection.tries - 1, limit=limit))
