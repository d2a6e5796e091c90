"""Stops a job without losing its progress, for spec.suspend, its queue or a deletion of the TrainJob, and resumes it.

The status comes first. Then only the head is deleted: its driver waits for one more committed
checkpoint, at most `suspendGraceSeconds`. The workers go when it has ended, and the job is Suspended
when no pod can act any more. A suspension that has started completes, whatever the spec says by then. A job that its
queue has not admitted, or admits no more, is stopped in the same way and is then Queued instead of Suspended.

A deleted TrainJob still exists while a finalizer keeps it, such as that of a backup tool or of a queue. Garbage
collection leaves its pods alone until the object is gone, so the job is stopped like a suspended one, and no pods
follow. With foreground deletion garbage collection deletes all pods itself, and the operator only waits for them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from railhead.api import conditions as types
from railhead.api.status import HeadStatus, Phase, WorkersStatus, replace_status
from railhead.planning.attempt import begin_next_attempt
from railhead.planning.child_kinds import remove_pod_group
from railhead.planning.decisions.finished import add_last_checkpoint, find_last_checkpoint
from railhead.planning.facts.deadlines import count_suspended
from railhead.planning.facts.reasons import QUEUE_NAME_CONFLICT
from railhead.planning.facts.settlement import count_attempt
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.pod_view import Problem
from railhead.planning.wanted_status import Requirement, WantedStatus, make_condition, set_not_running

SUSPENDING = "Suspending"
SUSPENDED = "Suspended"
_NUMBER = re.compile(r"\d+\w*")


def decide_suspend(job: Job) -> Decision | None:
    """Suspends a job, or completes a suspension that has started. A deleted job that has not finished is stopped in the
    same way, and nothing starts it again."""
    # A suspension that has begun completes even if spec.suspend is false again: half of its pods may be gone.
    is_stopped = job.spec.suspend or job.is_deleting or job.status.phase == "Suspending"
    if is_stopped:
        return wind_down(job)
    return None


def wind_down(job: Job) -> Decision | None:
    """Begins to stop the job, continues that, or keeps it stopped; None for a job that finished instead."""
    phase = job.status.phase
    if job.status.is_resting:
        # Nothing may run, not even pods that an operator with a stale view has created.
        if job.acting_pods:
            return Decision(deletes=delete_all(job.acting_pods))
        return _stay(job)
    # It finished before it could be suspended; `decide_success` records that.
    if job.has_succeeded and not job.is_attempt_lost:
        return None
    if not job.acting_pods:
        return _rest(job)
    return replace(_stop_pods(job), wanted=find_last_checkpoint(job) if phase == "Suspending" else _announce(job))


def _announce(job: Job) -> WantedStatus:
    """Returns the state Suspending, with the last checkpoint of a head that has just ended."""
    grace = job.spec.end_seconds
    # The user's own suspension explains itself, whatever the queue says.
    obstacle = None if job.spec.suspend else job.obstacle
    why = f"The queue stops the job ({obstacle.reason}: {obstacle.message[:600]}). " if obstacle else ""
    message = f"{why}A driver that trains ends after one more checkpoint, within {grace} s; then the pods are deleted"
    status = set_not_running(job, types.RECONCILING, reason=SUSPENDING, message=message)
    status = add_last_checkpoint(job, replace_status(status, phase="Suspending"))
    return WantedStatus(status).requiring(Requirement.SAME_SPEC)


def _stop_pods(job: Job) -> Decision:
    """Deletes the head, and when it has ended, or would have if it may not be deleted, all other pods; changes no
    status."""
    head = job.head
    if head is not None and not head.has_ended and not job.is_attempt_lost:
        protected_end = job.find_protected_end(head)
        # The head first and alone: its driver needs the workers for the last commit.
        if not head.is_deleting and (protected_end is None or job.now < protected_end):
            return Decision(deletes=delete_all([head]), wake_at=protected_end)
        if head.may_still_end(job.now):
            return Decision(wake_at=head.gone_by)
    return Decision(deletes=delete_all(job.acting_pods))


def _stay(job: Job) -> Decision:
    """Leaves a job at rest as it is, unless it waits for something else now. Other numbers in Kueue's message, such as
    the quota that is free, are no news."""
    phase, why = _explain_rest(job)
    if phase != job.status.phase:
        return _rest(job)
    known = job.status.find_condition(types.SUSPENDED)
    if phase == "Suspended" or known is None:
        return Decision()
    is_same = known.reason == why.reason and _NUMBER.sub("", known.message) == _NUMBER.sub("", why.message)
    if is_same:
        return Decision()
    return _rest(job)


def _explain_rest(job: Job, *, then: str = "") -> tuple[Phase, Problem]:
    """Returns the phase of a job without pods, and why it has none. `then`: from where the job continues."""
    if job.is_deleting:
        message = "The job is deleted and has no pods; a finalizer in its metadata keeps the object"
        return "Suspended", Problem(SUSPENDED, message)
    if job.obstacle is not None and not job.spec.suspend:
        return "Queued", job.obstacle
    return "Suspended", Problem(SUSPENDED, f"The job has no pods; once spec.suspend is false, it {then}")


def _rest(job: Job) -> Decision:
    """Suspends or queues the job, of which no pod can act any more."""
    # Before the pods' objects are gone: the head's message may have a checkpoint that no report told of.
    last = add_last_checkpoint(job, job.status)
    checkpoint = last.checkpoint
    then = "starts from scratch"
    if checkpoint:
        then = f"continues from checkpoint {checkpoint.index}"
    phase, why = _explain_rest(job, then=then)
    is_queued = phase == "Queued"
    status = set_not_running(job, types.SUSPENDED, reason=why.reason, message=why.message)
    if is_queued:
        type_ = types.STALLED if why.reason == QUEUE_NAME_CONFLICT else types.RECONCILING
        status = status.with_conditions(make_condition(job, type_, reason=why.reason, message=why.message))
    status = replace_status(
        status,
        checkpoint=checkpoint,
        best_checkpoint=last.best_checkpoint,
        phase=phase,
        head=HeadStatus(),
        workers=WorkersStatus(desired=job.desired_workers),
        resize=None,
        waiting=None,
    )
    wanted = WantedStatus(status)
    if job.status.phase != "Suspending":
        wanted = wanted.requiring(Requirement.SAME_SPEC)
    if job.status.attempt and not job.status.is_resting:
        # Pods that are not in the cache yet would lose their last checkpoint, and run without the queue's quota.
        wanted = wanted.requiring(Requirement.FRESH_PODS)
    event = Event("Normal", "Queued" if is_queued else SUSPENDED, why.message, is_series=is_queued)
    # A job at rest may get another gang scheduler, and then nothing tells any more which group this attempt had.
    return Decision(wanted=wanted, forgotten=remove_pod_group(job), events=(event,))


def decide_queue(job: Job) -> Decision | None:
    """Winds down a job that its queue does not admit. Without an answer of the API server a job at rest stays as it
    is: whatever the answer is, it makes the next pass."""
    if job.obstacle is None:
        return None
    if job.queue.state == "unknown" and not job.acting_pods:
        return Decision()
    return wind_down(job)


def decide_resume(job: Job) -> Decision | None:
    """Resumes a suspended or queued job; one that stays so does not get past `decide_suspend` and `decide_queue`."""
    if not job.status.is_resting:
        return None
    if job.acting_pods:
        return Decision(deletes=delete_all(job.acting_pods))
    is_queued = job.status.phase == "Queued"
    decision = begin_next_attempt(job, reason="Admitted" if is_queued else "Resumed", phase="Pending")
    seconds = count_suspended(job) or job.status.suspended_seconds
    status = replace_status(decision.status_after(job), suspended_seconds=seconds)
    # Also an attempt that was lost before the suspension: a suspension forgives nothing.
    return decision.with_status(count_attempt(job, status))
