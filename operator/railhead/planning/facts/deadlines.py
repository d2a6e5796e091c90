"""When the user's limits expire: for the job, its start, a restart, and its children after the end.

All by the API server's clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api import conditions as types
from railhead.contract.times import parse_time
from railhead.planning.facts.missing_report import is_report_missing
from railhead.planning.facts.partial_start import release_due
from railhead.planning.job import Job

REPORT_AGAIN_SECONDS = 20  # twice a driver's longest wait between two tries of a report
AWAITED = ("Pending", "Starting", "Restarting")  # phases in which the job waits for training


def active_due(job: Job) -> datetime | None:
    """spec.activeDeadlineSeconds; suspended time does not count."""
    limit = job.spec.active_deadline_seconds
    start = parse_time(job.status.start_time)
    if limit is None or start is None or job.attempt == 0 or job.status.phase == "Suspended":
        return None
    return start + timedelta(seconds=limit + max(job.status.suspended_seconds, 0))


def startup_due(job: Job) -> datetime | None:
    """spec.startDeadlineSeconds or spec.restartDeadlineSeconds, while the job waits for training."""
    waiting = job.status.waiting
    if waiting is None or job.is_attempt_lost or job.status.phase not in AWAITED:
        return None
    if job.is_training and job.are_enough_up:
        return None  # the next decision records that it runs
    if is_report_missing(job):
        return None  # it may train
    since = parse_time(waiting.since)
    limit = job.spec.restart_deadline_seconds if waiting.again else job.spec.start_deadline_seconds
    if since is None or limit is None:
        return None
    due = since + timedelta(seconds=limit)
    # Without a leader, no report could arrive that training runs: drivers get the time to repeat it.
    return max(due, job.led_since + timedelta(seconds=REPORT_AGAIN_SECONDS)) if job.led_since else due


def clean_up_due(job: Job) -> datetime | None:
    """spec.keepPodsSeconds."""
    return _after_end(job, job.spec.keep_pods_seconds)


def deletion_due(job: Job) -> datetime | None:
    """spec.ttlSecondsAfterFinished."""
    return _after_end(job, job.spec.ttl_seconds_after_finished)


def _after_end(job: Job, limit: int | None) -> datetime | None:
    """Not since status.completionTime, which is by the clock of the head's node."""
    ended = job.status.true_since(types.COMPLETE, types.FAILED)
    return ended + timedelta(seconds=limit) if ended is not None and limit is not None else None


def next_due(job: Job) -> datetime | None:
    """When the next limit expires."""
    finished = job.status.is_finished
    running = (active_due, startup_due, release_due)
    dues = (due(job) for due in ((clean_up_due, deletion_due) if finished else running))
    return min((due for due in dues if due is not None and due > job.now), default=None)


def count_suspended(job: Job) -> int:
    """status.suspendedSeconds including the suspension that ends now."""
    since = job.status.true_since(types.SUSPENDED) if job.attempt > 0 else None
    rested = (job.now - since).total_seconds() if since else 0.0
    return min(job.status.suspended_seconds + max(int(rested), 0), 2**31 - 1)
