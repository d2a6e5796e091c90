"""Holds back the pods that a pass would create, and reports why."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from railhead.api import conditions as types
from railhead.planning.conditions import stand_still
from railhead.planning.decisions.progress import show_progress
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.pod_view import Problem


def hold_back(job: Job, decision: Decision, why: Problem, *, event: Literal["Normal", "Warning"]) -> Decision:
    """Only the decision's deletes remain. An elastic job with enough workers keeps training."""
    held = show_progress(job) if job.is_elastic and job.are_enough_up else _report(job, why, event)
    return replace(held, deletes=decision.deletes)


def _report(job: Job, problem: Problem, event: Literal["Normal", "Warning"]) -> Decision:
    """Reports a problem once, and again when it changes."""
    reason, message = problem.reason, problem.message
    if any((x.type, x.reason, x.message) == (types.RECONCILING, reason, message) for x in job.status.conditions):
        return Decision()
    status = stand_still(job, types.RECONCILING, reason=reason, message=message)
    news = Event(event, reason, message, is_series=True)
    return Decision(status=replace(status, phase=job.status.phase or "Pending"), events=(news,))
