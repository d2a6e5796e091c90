"""What the operator's administrator does not allow: no pods are created, as if the API server rejected them.

Only pods that are to be created are judged: a job that ran before it was forbidden keeps those it has.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api.restrictions import ADVICE, find_refusals
from railhead.planning.facts.reasons import NOT_ALLOWED
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import Problem

MOST_NAMED = 5


def refuse_pods(job: Job, decision: Decision) -> Decision:
    """Drops the creates of a decision that creates pods, if the job uses what it may not."""
    if not any(create.kind == "Pod" for create in decision.creates):
        return decision
    refusals = find_refusals(job.spec, job.settings.restrictions)
    if not refusals:
        return decision
    message = "; ".join(refusals[:MOST_NAMED]) + ADVICE
    return replace(decision, creates=(), refused=Problem(NOT_ALLOWED, message))
