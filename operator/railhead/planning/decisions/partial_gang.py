"""An incomplete attempt: while the API server rejects some of its pods, the others must not hold GPUs for long.

All pods of the attempt are released. The next attempt follows with a growing delay, and no budget
counts it; of two jobs that each hold half of a quota, one then gets everything it needs.
"""

from __future__ import annotations

from railhead.contract.failure import Failure, FailureClass
from railhead.planning.attempt_end import lose_attempt
from railhead.planning.facts.failure_from_pod import explain_decision
from railhead.planning.facts.partial_gang import find_hold_seconds, give_up_due
from railhead.planning.job import Job
from railhead.planning.plan import Decision


def decide_partial_gang(job: Job) -> Decision | None:
    """Ends an attempt that has waited long enough for a rejected pod."""
    due = give_up_due(job)
    if due is None or due > job.now or job.rejection is None:
        return None
    problem = job.rejection.problem
    held = sum(pod.attempt == job.attempt for pod in job.acting_pods)
    message = f"{problem.message}; the {held} pods that exist were released after {find_hold_seconds(job)} s"
    failure = explain_decision(job, Failure(FailureClass.STARTUP, problem.reason, message))
    return lose_attempt(job, failure)
