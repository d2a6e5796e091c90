"""Ends an attempt without success: its failure is recorded before anything is deleted.

The counters change in the write that starts the next attempt, so that deciding twice gives
the same result.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.api.status import FailureStatus, WorkersStatus
from railhead.contract.failure import FailureClass, Payer
from railhead.contract.outcome import Outcome
from railhead.contract.times import format_time
from railhead.planning.conditions import make_condition, stand
from railhead.planning.facts.backoff import next_attempt_at
from railhead.planning.facts.report import change_by_outcome
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.status_change import UNSET, Requirement, StatusChange


def lose_attempt(job: Job, failure: FailureStatus) -> Decision:
    """The attempt is over: the next one follows, or the job fails."""
    status = _conclude(job, failure, job.outcome)
    committed = job.has_committed or status.checkpoint is not UNSET
    spent = find_spent_budget(job, FailureClass.parse(failure.class_), committed=committed)
    if spent:
        return _fail(job, failure, job.outcome, because=spent)
    message = (
        f"Attempt {job.attempt} was lost ({failure.class_}: {failure.message[:600]}); attempt {job.attempt + 1} follows"
    )
    reason = failure.reason or "Restarting"
    status = replace(status, phase="Restarting").with_conditions(
        make_condition(job, types.RECONCILING, reason="Restarting", message=message),
        make_condition(job, types.RUNNING, reason=reason, message=message, is_true=False),
    )
    return Decision(
        status=status,
        # A terminated pod holds no resources and is evidence: it stays until the next attempt starts.
        deletes=delete_all(pod for pod in job.pods if pod.is_live),
        events=(Event("Warning", "Restarting", message),),
        wake_at=next_attempt_at(job, failure, committed=committed),
    )


def fail_job(job: Job, failure: FailureStatus) -> Decision:
    """No attempt follows, although restart budgets are left."""
    return _fail(job, failure, None, because=FailureClass.parse(failure.class_).policy.final)


def find_spent_budget(job: Job, kind: FailureClass, *, committed: bool) -> str:
    """Why the job must fail now, or an empty string. `committed`: the lost attempt has committed a checkpoint."""
    limit, restarts, policy = job.spec.backoff_limit, job.status.restarts, kind.policy
    if policy.final:
        return policy.final
    if policy.payer is Payer.APPLICATION and restarts.application >= limit:
        return f"backoffLimit {limit} is reached"
    if not committed and policy.counts_progress and restarts.without_progress >= limit:
        return f"{restarts.without_progress + 1} attempts in a row committed no checkpoint (backoffLimit {limit})"
    return ""


def _fail(job: Job, failure: FailureStatus, outcome: Outcome | None, *, because: str) -> Decision:
    """`decide_finished` deletes the pods."""
    message = f"{failure.class_}: {failure.message} ({because})"
    reason = failure.reason or failure.class_
    status = replace(
        _conclude(job, failure, outcome),
        phase="Failed",
        completion_time=format_time(job.now),
        workers=WorkersStatus(desired=job.desired_workers),
    ).with_conditions(
        make_condition(job, types.FAILED, reason=reason, message=message),
        make_condition(job, types.STALLED, reason=reason, message=message),
        make_condition(job, types.RUNNING, reason="Failed", message=message, is_true=False),
    )
    return Decision(status=status, events=(Event("Warning", "Failed", message[:1000]),))


def _conclude(job: Job, failure: FailureStatus, outcome: Outcome | None) -> StatusChange:
    """The failure and the last checkpoints. An attempt ends once, for one cause: the view must hold all its pods."""
    change = replace(stand(job), failure=failure).requiring(Requirement.FRESH_PODS)
    return change_by_outcome(change, job.status, outcome, job.now)
