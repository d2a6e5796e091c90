"""Counts what a job has spent of spec.backoffLimit and spec.disruptionLimit.

spec.backoffLimit refills: after spec.backoffResetSeconds of training, together with a checkpoint that is newer than the
last failure, no earlier failure counts. Training alone proves nothing, and neither does a checkpoint right after a
start. spec.disruptionLimit never refills.
"""

from __future__ import annotations

from datetime import datetime

from railhead.api.spec import TrainJobSpec
from railhead.api.status import Budget, JobStatus, replace_restarts, replace_status
from railhead.planning.facts.charged_failures import count_charged
from railhead.planning.job import Job


def count_failures(job: Job, *, committed: int) -> int:
    """Counts the failures that spec.backoffLimit counts now; `committed`: index of the run's newest checkpoint."""
    return count_charged(job.status, job.now, reset_seconds=job.spec.reset_seconds, committed=committed)


def charge_failures(job: Job, status: JobStatus, number: int) -> JobStatus:
    """Adds failures of the application to those that spec.backoffLimit counts; refilling begins again."""
    committed = job.status.newest_index
    # The ones that count now, not all of the past: a full budget begins with this failure alone.
    failures = count_failures(job, committed=committed) + number
    restarts = replace_restarts(status.restarts, application=failures)
    return replace_status(status, restarts=restarts, budget=Budget(checkpoint=committed))


def count_allowed_restarts(spec: TrainJobSpec, status: JobStatus, now: datetime) -> int:
    """Counts the charged restarts in place that the current attempt may have in all, with those that it has had."""
    counted = 0
    if status.counted_restarts:
        counted = status.counted_restarts.charged
    used = count_charged(status, now, reset_seconds=spec.reset_seconds, committed=status.newest_index)
    return counted + max(spec.backoff_limit - used, 0)


def is_disruption_limit_reached(job: Job) -> bool:
    """Returns whether spec.disruptionLimit allows no further disruption."""
    limit = job.spec.disruption_limit
    return limit is not None and job.status.restarts.disruptions >= limit
