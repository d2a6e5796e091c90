"""Pods of an attempt that is not whole: when the API server rejects the others, nobody's GPUs are held for them.

All pods of the attempt are given back. The next attempt follows with a growing delay, and no budget
counts it; of two jobs that each hold half of a quota, one will find all that it needs.
"""

from __future__ import annotations

from railhead.contract.failure import Failure, FailureClass
from railhead.planning.attempt_end import lose_attempt
from railhead.planning.facts.failure_from_pod import explain_decision
from railhead.planning.facts.partial_gang import HOLD_SECONDS, give_up_due
from railhead.planning.job import Job
from railhead.planning.plan import Decision


def decide_partial_gang(job: Job) -> Decision | None:
    """Has the attempt waited long enough for a pod that was rejected?"""
    due = give_up_due(job)
    if due is None or due > job.now or job.rejection is None:
        return None
    problem = job.rejection.problem
    held = sum(pod.attempt == job.attempt for pod in job.acting_pods)
    message = f"{problem.message}; the {held} pods that there are were given back after {HOLD_SECONDS} s"
    failure = explain_decision(job, Failure(FailureClass.STARTUP, problem.reason, message))
    return lose_attempt(job, failure, outcome=job.head.outcome if job.head else None)
