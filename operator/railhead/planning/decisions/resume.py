"""A job that was suspended continues: with a new attempt, which no budget counts."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.attempt_begin import begin_next_attempt
from railhead.planning.facts.deadlines import count_suspended
from railhead.planning.job import Job
from railhead.planning.plan import Decision, delete_all
from railhead.planning.status_change import UNSET, Requirement


def decide_resume(job: Job) -> Decision | None:
    """Is a suspended job to continue? `decide_suspend` has answered for one that is to rest."""
    if job.status.phase != "Suspended":
        return None
    remains = job.acting_pods
    if remains:
        return Decision(deletes=delete_all(remains))
    decision = begin_next_attempt(job, reason="Resumed", phase="Pending")
    if decision.status is None:
        return decision
    # An older spec than the present one must not begin anything.
    status = replace(decision.status, suspended_seconds=count_suspended(job) or UNSET)
    return replace(decision, status=status.requiring(Requirement.SAME_SPEC))
