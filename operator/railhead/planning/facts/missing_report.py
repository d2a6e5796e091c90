"""An attempt whose pods run and of which no report has arrived: it may train, and the way of the reports be broken.

A driver sends its first report as soon as its container has started, long before training.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.planning.job import Job

EXPECTED_SECONDS = 120  # from the start of the head's container; Python and Ray start in a fraction of it


def is_report_missing(job: Job) -> bool:
    return job.are_enough_up and job.status.progress.attempt != job.attempt


def report_due(job: Job) -> datetime | None:
    """When the first report of the attempt is overdue; None once it has arrived, and while pods start."""
    started = job.head.started_at if job.head is not None else None
    if started is None or not is_report_missing(job):
        return None
    return min(started, job.now) + timedelta(seconds=EXPECTED_SECONDS)
