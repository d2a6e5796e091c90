"""Counts in status.budget and status.goodput the time that a job has run, and what it was spent on.

After enough training, which the running time adds up, backoffLimit is full again. status.goodput is settled with each
write of the status that happens anyway, and is never a reason for one.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.contract.numbers import MAX_INT32
from railhead.planning.facts.charged_failures import running_stretch
from railhead.planning.facts.goodput_account import settle_time
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.status_change import UNSET, StatusChange, changes_anything
from railhead.resources.sizes import compute_sizes


def count_running_time(job: Job, decision: Decision) -> Decision:
    """Adds the stretch of training that the decision ends, for a job whose budget is not full."""
    status = decision.status
    budget = job.status.budget
    if status is None or budget is None or status.budget is not UNSET or not _ends_training(status):
        return decision
    seconds = min(budget.running_seconds + running_stretch(job.status, job.now), MAX_INT32)
    budget = budget.model_copy(update={"running_seconds": seconds})
    return replace(decision, status=replace(status, budget=budget))


def count_time(job: Job, decision: Decision) -> Decision:
    """Settles status.goodput until now, or until the driver's last report. A finished job keeps what it has."""
    change = decision.status
    old = job.status
    if change is None or change.is_guard or old.is_finished or not changes_anything(job, change):
        return decision
    if change.goodput is not UNSET:
        return decision
    new = change.apply(old)
    if old.goodput is None and new.attempt == old.attempt and new.phase != "Queued":
        return decision  # an operator that did not count has begun the attempt
    gpus = job.desired_workers * compute_sizes(job.spec).worker.ray.gpus
    return replace(decision, status=replace(change, goodput=settle_time(old, new, now=job.now, gpus=gpus)))


def _ends_training(status: StatusChange) -> bool:
    """Whether the change sets Running to False, or removes it."""
    states = {condition.type: condition.is_true for condition in status.set_conditions}
    if types.RUNNING in states:
        return not states[types.RUNNING]
    return types.RUNNING in status.remove_conditions
