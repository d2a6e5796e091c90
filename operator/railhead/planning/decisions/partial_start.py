"""An attempt of which some pods have a node and the others find none: it must not hold its GPUs forever.

All its pods are released, so that of two jobs that each hold half of the nodes, one gets everything it needs: they
take turns, as jobs that share a quota do.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.contract.failure import Failure, FailureClass
from railhead.planning.attempt_end import lose_attempt
from railhead.planning.facts.deadlines import find_placed, find_unread, find_waiting, release_due
from railhead.planning.facts.failure import explain_decision
from railhead.planning.facts.reasons import PARTIAL_START
from railhead.planning.facts.start_line import find_turn, release_nodes
from railhead.planning.job import Job
from railhead.planning.plan import Decision


def decide_partial_start(job: Job) -> Decision | None:
    """Ends the attempt when its deadline has passed, or its turn is over."""
    due = release_due(job)
    if due is None or due > job.now or find_unread(job) is not None:
        return None
    failure = Failure(FailureClass.STARTUP, PARTIAL_START, _explain(job))
    decision = lose_attempt(job, explain_decision(job, failure, pod=find_waiting(job)))
    return replace(decision, status=decision.status and replace(decision.status, start_line=release_nodes(job)))


def _explain(job: Job) -> str:
    pod, next_job, limit = find_waiting(job), find_turn(job), job.spec.partial_start_deadline_seconds
    if next_job is not None:
        why = f"the job's turn is over, and TrainJob {next_job.name} creates its pods now"
    else:
        why = f"no further pod got a node for {limit} s (spec.partialStartDeadlineSeconds)"
    cause = f"; pod {pod.name} cannot start: {pod.problem.message[:600]}" if pod and pod.problem else ""
    return f"{len(find_placed(job))} of {1 + job.desired_workers} pods had a node and were released: {why}{cause}"
