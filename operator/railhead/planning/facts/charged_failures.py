"""How much of spec.backoffLimit a job has used. `railhead why` asks this too, so it needs no more than the status."""

from __future__ import annotations

from datetime import datetime

from railhead.api import conditions as types
from railhead.api.status import JobStatus


def count_charged(status: JobStatus, now: datetime, *, reset_seconds: int, committed: int) -> int:
    """Counts the failures that spec.backoffLimit counts now: none after enough training with a newer checkpoint.

    `committed` is the index of the newest checkpoint of the run, `reset_seconds` is spec.backoffResetSeconds.
    """
    budget = status.budget
    if budget is None:
        return status.restarts.application
    has_trained = budget.running_seconds + running_stretch(status, now) >= reset_seconds
    # Both are needed: a crash loop may commit early each time, and a job may train for hours without any use.
    if has_trained and committed > budget.checkpoint:
        return 0
    return status.restarts.application


def running_stretch(status: JobStatus, now: datetime) -> int:
    """Returns for how many seconds training has run without a break; 0 while it does not run."""
    since = status.true_since(types.RUNNING)
    if since:
        return max(int((now - since).total_seconds()), 0)
    return 0
