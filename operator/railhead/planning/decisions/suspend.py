"""Stops a job without losing its progress, for spec.suspend or since the TrainJob is deleted, and resumes it.

The status comes first. Then only the head is deleted: its driver waits for one more committed
checkpoint, at most `suspendGraceSeconds`. The workers go when it has ended, and the job is Suspended
when no pod can act any more. A suspension that has started completes, whatever the spec says by then.

A deleted TrainJob still exists while a finalizer keeps it, such as that of a backup tool or of a queue. Garbage
collection leaves its pods alone until the object is gone, so the job is stopped like a suspended one, and no pods
follow. With foreground deletion garbage collection deletes all pods itself, and the operator only waits for them.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.api.status import HeadStatus, WorkersStatus
from railhead.planning.attempt import begin_next_attempt
from railhead.planning.children import gang_removal
from railhead.planning.decisions.finished import add_last_checkpoint, find_last_checkpoint
from railhead.planning.facts.deadlines import count_suspended
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.status_change import UNSET, Requirement, StatusChange, stand_still

SUSPENDING, SUSPENDED = "Suspending", "Suspended"


def decide_suspend(job: Job) -> Decision | None:
    """Suspends the job, or completes a suspension that has started."""
    return wind_down(job) if job.spec.suspend or job.status.phase == "Suspending" else None


def wind_down(job: Job) -> Decision | None:
    """Begins to stop the job, continues that, or keeps it stopped; None for a job that finished instead."""
    phase = job.status.phase
    if phase == "Suspended":
        # Nothing may run, not even pods that an operator with a stale view has created.
        return Decision(deletes=delete_all(job.acting_pods))
    if job.has_succeeded and not job.is_attempt_lost:
        return None
    if not job.acting_pods:
        return _rest(job)
    return replace(_stop_pods(job), status=find_last_checkpoint(job) if phase == "Suspending" else _announce(job))


def _announce(job: Job) -> StatusChange:
    """Returns the state Suspending, with the last checkpoint of a head that has just ended."""
    grace = job.spec.end_seconds
    message = f"The driver ends after one more committed checkpoint, within {grace} s; then the pods are deleted"
    status = replace(stand_still(job, types.RECONCILING, reason=SUSPENDING, message=message), phase="Suspending")
    return add_last_checkpoint(job, status.requiring(Requirement.SAME_SPEC))


def _stop_pods(job: Job) -> Decision:
    """Deletes the head, and when it has ended all other pods; changes no status."""
    head = job.head
    if head is not None and not head.has_ended and not job.is_attempt_lost:
        if not head.is_deleting:
            return Decision(deletes=delete_all([head]))
        if head.may_still_end(job.now):
            return Decision(wake_at=head.gone_by)
    return Decision(deletes=delete_all(job.acting_pods))


def _rest(job: Job) -> Decision:
    """Suspends the job, of which no pod can act any more."""
    last = find_last_checkpoint(job) or StatusChange()
    checkpoint = job.status.checkpoint if last.checkpoint is UNSET else last.checkpoint
    then = f"continues from checkpoint {checkpoint.index}" if checkpoint else "starts from scratch"
    if job.is_deleting:
        message = "The job is deleted and has no pods; a finalizer in its metadata keeps the object"
    else:
        message = f"The job has no pods; once spec.suspend is false, it {then}"
    status = replace(
        stand_still(job, types.SUSPENDED, reason=SUSPENDED, message=message),
        checkpoint=last.checkpoint,
        best_checkpoint=last.best_checkpoint,
        phase="Suspended",
        head=HeadStatus(),
        workers=WorkersStatus(desired=job.desired_workers),
        resize=None,
        waiting=None,
    )
    if job.status.phase != "Suspending":
        status = status.requiring(Requirement.SAME_SPEC)
    return Decision(status=status, removes=gang_removal(job), events=(Event("Normal", SUSPENDED, message),))


def decide_deleted(job: Job) -> Decision | None:
    """Winds down a deleted job that has not finished; nothing starts it again."""
    return wind_down(job) if job.is_deleting else None


def decide_resume(job: Job) -> Decision | None:
    """Resumes a suspended job; one that stays suspended does not get past `decide_suspend`."""
    if job.status.phase != "Suspended":
        return None
    remains = job.acting_pods
    if remains:
        return Decision(deletes=delete_all(remains))
    decision = begin_next_attempt(job, reason="Resumed", phase="Pending")
    if decision.status is None:
        return decision
    return replace(decision, status=replace(decision.status, suspended_seconds=count_suspended(job) or UNSET))
