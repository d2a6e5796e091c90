"""Reconciles a job again although nothing changes: for a user's limit, or a pod whose node does not respond."""

from __future__ import annotations

from railhead.planning.facts.deadlines import next_due
from railhead.planning.job import Job
from railhead.planning.plan import Decision


def wake_for_limits(job: Job, decision: Decision) -> Decision:
    """Adds the earliest of these times."""
    decision = decision.waking(next_due(job))
    return decision if job.status.is_finished else decision.waking(job.next_out_of_reach)
