"""spec.resumeFrom before the first attempt: which checkpoint it means, or why it cannot be used.

What was found goes into the status with the first attempt, so that all attempts mean the
same checkpoint, whatever becomes of the other job.
"""

from __future__ import annotations

from datetime import timedelta

from railhead.api import conditions as c
from railhead.api.resume import ResumeFrom
from railhead.api.status import InitialCheckpoint
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan
from railhead.planning.status_write import build_condition, build_status_write

LOOK_SECONDS = 10  # the other job's changes do not wake this one
NOT_FOUND, RUNS, NOTHING = "SourceNotFound", "SourceStillRuns", "SourceHasNoCheckpoint"


def decide_source(observed: Observed) -> Plan | None:
    """A job that cannot begin from where it is to begin makes no pods; it is looked at again from time to time."""
    wanted = observed.spec.resume_from if observed.spec else None
    if wanted is None or observed.attempt > 0 or observed.pods:  # with pods it has begun, and its status was wiped
        return None
    problem = _find_problem(observed, wanted)
    if problem is None:
        return None
    reason, message = problem
    stalled = build_condition(observed, c.STALLED, reason=reason, message=message)
    status = build_status_write(observed, [stalled], phase="Pending")  # also of one that was created suspended
    events = (Event("Warning", reason, message),) if observed.status.reason_of(c.STALLED) != reason else ()
    return Plan(status=status, events=events if status else (), wake_at=observed.now + timedelta(seconds=LOOK_SECONDS))


def _find_problem(observed: Observed, wanted: ResumeFrom) -> tuple[str, str] | None:
    """Reason and sentence, or None when it can be used."""
    if wanted.train_job is None:
        return None
    field = f"spec.resumeFrom.trainJob {wanted.train_job}"
    source = observed.source
    if source is None or wanted.train_job == observed.name:
        where = "is this job itself" if wanted.train_job == observed.name else "is not there"
        return NOT_FOUND, f"{field} {where}; name another TrainJob of namespace {observed.namespace}, or a checkpoint"
    if not source.is_finished:
        return RUNS, f"{field} has not ended; this job begins when it has, or name one of its checkpoints"
    if _find_checkpoint(observed, wanted) is None:
        what = "bestCheckpoint (run.checkpoint.scoreAttribute)" if wanted.best else "checkpoint"
        return NOTHING, f"{field} has ended without a {what} in its status; name another one, or leave resumeFrom out"
    return None


def _find_checkpoint(observed: Observed, wanted: ResumeFrom) -> str | None:
    if wanted.train_job is None:
        return wanted.checkpoint
    status = observed.source
    found = (status.best_checkpoint if wanted.best else status.checkpoint) if status else None
    return found.uri if found else None


def find_initial_checkpoint(observed: Observed) -> InitialCheckpoint | None:
    """By the status, or while there is no attempt by the spec; None without resumeFrom."""
    wanted = observed.spec.resume_from if observed.spec else None
    if wanted is None or observed.attempt > 0:
        return observed.status.initial_checkpoint
    uri = _find_checkpoint(observed, wanted)
    return InitialCheckpoint(uri=uri, train_job=wanted.train_job or "") if uri else None
