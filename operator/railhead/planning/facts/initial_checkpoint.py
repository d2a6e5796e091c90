"""The checkpoint that spec.resumeFrom refers to."""

from __future__ import annotations

from railhead.api.status import InitialCheckpoint
from railhead.planning.job import Job


def find_source_checkpoint(job: Job) -> str | None:
    """Its URI, from the spec and the other job's status; None while there is none, or without resumeFrom."""
    wanted = job.spec.resume_from
    if wanted is None or wanted.train_job is None:
        return wanted.checkpoint if wanted else None
    found = (job.source.best_checkpoint if wanted.best else job.source.checkpoint) if job.source else None
    return found.uri if found else None


def find_initial_checkpoint(job: Job) -> InitialCheckpoint | None:
    """From the status, or before the first attempt from the spec; None without resumeFrom."""
    wanted = job.spec.resume_from
    if wanted is None or job.attempt > 0:
        return job.status.initial_checkpoint
    uri = find_source_checkpoint(job)
    return InitialCheckpoint(uri=uri, train_job=wanted.train_job or "") if uri else None
