"""Ends an attempt without success: its failure is recorded before anything is deleted."""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.api.status import FailureStatus, WorkersStatus
from railhead.contract.failure import FailureClass
from railhead.contract.failure_rules import FAIL
from railhead.contract.outcome import Outcome
from railhead.contract.times import format_time
from railhead.planning.children import driver_removal
from railhead.planning.conditions import make_condition, stand
from railhead.planning.facts.failure import TERMINATION_BY_KUBELET, apply_rules, blame_application
from railhead.planning.facts.report import change_by_outcome
from railhead.planning.facts.settlement import IN_A_ROW, find_spent, is_progress, next_attempt_at
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.status_change import Requirement, StatusChange, Unset


def lose_attempt(job: Job, failure: FailureStatus) -> Decision:
    """The attempt is over: the next one follows, or the job fails."""
    status = _conclude(job, failure, job.outcome)
    newest = job.status.newest_index if isinstance(status.checkpoint, Unset) else status.checkpoint.index
    committed = is_progress(job, newest)
    by_kubelet = job.status.all_disruptions.by_kubelet + 1
    if failure.reason == TERMINATION_BY_KUBELET and not committed and by_kubelet >= IN_A_ROW:
        failure = blame_application(failure, times=IN_A_ROW)
    failure, rule = apply_rules(job.spec, failure)
    status = replace(status, failure=failure)
    spent = f"{rule}: {FAIL}" if failure.action == FAIL else find_spent(job, failure, committed=newest)
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
        removes=driver_removal(job),
        events=(Event("Warning", "Restarting", message),),
        wake_at=next_attempt_at(job, failure, committed=newest),
    )


def fail_job(job: Job, failure: FailureStatus) -> Decision:
    """No attempt follows, although restart budgets are left."""
    return _fail(job, failure, None, because=FailureClass.parse(failure.class_).policy.final)


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
