"""spec.resumeFrom before the first attempt: why its checkpoint cannot be used.

A checkpoint that can be used goes into the status with the first attempt, so that all attempts
use the same one, whatever becomes of the other job.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from railhead.api import conditions as types
from railhead.api.resume import ResumeFrom
from railhead.planning.children import find_source_checkpoint
from railhead.planning.conditions import make_condition, stand
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event

LOOK_SECONDS = 10  # the other job's changes do not wake this one
NOT_FOUND, RUNS, NOTHING = "SourceNotFound", "SourceStillRuns", "SourceHasNoCheckpoint"


def decide_resume_source(job: Job) -> Decision | None:
    """A job without its initial checkpoint creates no pods; it is reconciled again every `LOOK_SECONDS`."""
    wanted = job.spec.resume_from
    if wanted is None or job.attempt > 0 or job.pods:  # with pods it has started, and its status was wiped
        return None
    problem = _find_problem(job, wanted)
    if problem is None:
        return None
    reason, message = problem
    is_news = job.status.reason_of(types.STALLED) != reason
    stalled = stand(job, make_condition(job, types.STALLED, reason=reason, message=message))
    return Decision(
        status=replace(stalled, phase="Pending"),  # also of one that was created suspended
        events=(Event("Warning", reason, message),) if is_news else (),
        wake_at=job.now + timedelta(seconds=LOOK_SECONDS),
    )


def _describe_absence(job: Job) -> str:
    selector = job.settings.job_selector
    return f"does not exist, or its labels do not match {selector} of this operator" if selector else "does not exist"


def _find_problem(job: Job, wanted: ResumeFrom) -> tuple[str, str] | None:
    """Reason and message, or None if it can be used."""
    if wanted.train_job is None:
        return None
    field = f"spec.resumeFrom.trainJob {wanted.train_job}"
    source = job.source
    if source is None or wanted.train_job == job.name:
        where = "is this job itself" if wanted.train_job == job.name else _describe_absence(job)
        return NOT_FOUND, f"{field} {where}; name another TrainJob in namespace {job.namespace}, or a checkpoint"
    if not source.is_finished:
        return RUNS, f"{field} has not ended; this job starts when it has, or name one of its checkpoints"
    if find_source_checkpoint(job) is None:
        what = "bestCheckpoint (run.checkpoint.scoreAttribute)" if wanted.best else "checkpoint"
        return NOTHING, f"{field} has ended without a {what} in its status; name another TrainJob, or omit resumeFrom"
    return None
