"""An incomplete attempt: while the API server rejects some of its pods, the others must not hold GPUs for long.

All pods of the attempt are released. The next attempt follows with a growing delay, and no budget
counts it; of two jobs that each hold half of a quota, one then gets everything it needs: they take turns.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.contract.failure import Failure, FailureClass
from railhead.planning.attempt_end import lose_attempt
from railhead.planning.facts.deadlines import give_up_due, held_since
from railhead.planning.facts.failure import explain_decision
from railhead.planning.facts.reasons import QUOTA_EXCEEDED
from railhead.planning.facts.start_line import explain_rejection, release
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import Problem


def decide_partial_gang(job: Job) -> Decision | None:
    """Ends an attempt that has waited long enough for a rejected pod."""
    due, since = give_up_due(job), held_since(job)
    if due is None or since is None or due > job.now:
        return None
    problem = _explain(job)
    held = sum(pod.attempt == job.attempt for pod in job.acting_pods)
    waited = int((job.now - since).total_seconds())
    message = f"{problem.message}; the {held} pods that exist were released after {waited} s"
    decision = lose_attempt(job, explain_decision(job, Failure(FailureClass.STARTUP, problem.reason, message)))
    return replace(decision, status=decision.status and replace(decision.status, start_line=release(job)))


def _explain(job: Job) -> Problem:
    if job.rejection is not None:
        return explain_rejection(job, job.rejection.problem)
    return Problem(QUOTA_EXCEEDED, "A quota rejected pods, and it is another job's turn to create")
