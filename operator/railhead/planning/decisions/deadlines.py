"""The user's deadlines: for the whole job, for its start and for a restart."""

from __future__ import annotations

from railhead.contract.failure import Failure, FailureClass
from railhead.planning.attempt_end import fail_job, lose_attempt
from railhead.planning.facts.deadlines import active_due, startup_due
from railhead.planning.facts.failure import explain_decision
from railhead.planning.job import Job
from railhead.planning.plan import Decision


def decide_active_deadline(job: Job) -> Decision | None:
    """Fails a job after spec.activeDeadlineSeconds; `decide_finished` then terminates its head first."""
    due = active_due(job)
    if due is None or due > job.now:
        return None
    if job.has_succeeded:
        return None  # it finished in time
    limit = job.spec.active_deadline_seconds
    message = f"The job was active for {limit} s (spec.activeDeadlineSeconds) without finishing"
    failure = Failure(FailureClass.DEADLINE_EXCEEDED, "ActiveDeadlineExceeded", message)
    return fail_job(job, explain_decision(job, failure))


def decide_startup_deadline(job: Job) -> Decision | None:
    """Ends an attempt that does not train in time: all pods are released, and the next attempt backs off."""
    due = startup_due(job)
    if due is None or due > job.now:
        return None
    waiting = job.status.waiting
    field = "restartDeadlineSeconds" if waiting and waiting.again else "startDeadlineSeconds"
    found = job.startup_problem
    why = f": pod {found[0].name} cannot start ({found[1].reason}: {found[1].message[:600]})" if found else ""
    message = f"Training did not start within spec.{field}{why}"
    reason = field[0].upper() + field.removesuffix("Seconds")[1:] + "Exceeded"
    failure = explain_decision(job, Failure(FailureClass.STARTUP, reason, message), pod=found[0] if found else None)
    return lose_attempt(job, failure)
