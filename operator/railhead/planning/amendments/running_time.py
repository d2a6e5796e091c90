"""Adds a stretch of training that ends to status.budget: after enough of it, backoffLimit is full again."""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.planning.facts.settlement import running_stretch
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.status_change import UNSET, StatusChange


def count_running_time(job: Job, decision: Decision) -> Decision:
    """For a job whose budget is not full."""
    status, budget = decision.status, job.status.budget
    if status is None or budget is None or status.budget is not UNSET or not _ends_training(status):
        return decision
    seconds = min(budget.running_seconds + running_stretch(job.status, job.now), 2**31 - 1)
    budget = budget.model_copy(update={"running_seconds": seconds})
    return replace(decision, status=replace(status, budget=budget))


def _ends_training(status: StatusChange) -> bool:
    states = {condition.type: condition.is_true for condition in status.set_conditions}
    return not states.get(types.RUNNING, types.RUNNING not in status.remove_conditions)
