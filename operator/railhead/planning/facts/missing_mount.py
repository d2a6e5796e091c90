"""What a pod cannot mount because somebody deleted it."""

from __future__ import annotations

from railhead.planning.facts.reasons import FAILED_MOUNT
from railhead.planning.job import Job


def find_missing_mount(job: Job) -> str | None:
    """The name of the attempt's driver, input or Secret, if the kubelet reports that it is missing."""
    found = job.startup_problem
    if found is None or found[1].reason != FAILED_MOUNT:
        return None
    message, mounts = found[1].message, job.mounts_of(job.attempt)
    return next((name for name in (mounts.driver, mounts.input, mounts.secret) if name in message), None)
