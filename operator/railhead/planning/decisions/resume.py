"""Resumes a suspended job with a new attempt, which no budget counts."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.attempt_begin import begin_next_attempt
from railhead.planning.facts.deadlines import count_suspended
from railhead.planning.job import Job
from railhead.planning.plan import Decision, delete_all
from railhead.planning.status_change import UNSET


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
