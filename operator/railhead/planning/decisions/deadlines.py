"""What ends when its time is up: the job, an attempt that does not train in time, and an attempt that holds some of its
pods and cannot get the others, since the API server rejects them or they find no node.

An incomplete attempt releases all its pods, so that it does not hold GPUs for long. The next attempt follows with a
growing delay, and no budget counts it; of two jobs that each hold half of a quota or of the nodes, one then gets
everything it needs: they take turns.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.contract.failure import Failure, FailureClass
from railhead.planning.attempt import fail_job, lose_attempt
from railhead.planning.facts.deadlines import (
    active_due,
    find_placed,
    find_unread,
    find_waiting,
    give_up_due,
    held_since,
    release_due,
    startup_due,
)
from railhead.planning.facts.failure import explain_decision
from railhead.planning.facts.reasons import PARTIAL_START, QUOTA_EXCEEDED
from railhead.planning.facts.start_line import explain_rejection, find_turn, release, release_nodes
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import Problem


def decide_active_deadline(job: Job) -> Decision | None:
    """Fails a job after spec.activeDeadlineSeconds; `decide_finished` then terminates its head first."""
    due = active_due(job)
    if due is None or due > job.now:
        return None
    if job.has_succeeded:
        return None  # it finished in time
    limit = job.spec.active_deadline_seconds
    message = f"The job was active for {limit} s (spec.activeDeadlineSeconds) without finishing"
    failure = Failure(FailureClass.DEADLINE_EXCEEDED, "ActiveDeadlineExceeded", message)
    return fail_job(job, explain_decision(job, failure))


def decide_startup_deadline(job: Job) -> Decision | None:
    """Ends an attempt that does not train in time: all pods are released, and the next attempt backs off."""
    due = startup_due(job)
    if due is None or due > job.now:
        return None
    waiting = job.status.waiting
    field = "restartDeadlineSeconds" if waiting and waiting.again else "startDeadlineSeconds"
    found = job.startup_problem
    why = f": pod {found[0].name} cannot start ({found[1].reason}: {found[1].message[:600]})" if found else ""
    message = f"Training did not start within spec.{field}{why}"
    reason = field[0].upper() + field.removesuffix("Seconds")[1:] + "Exceeded"
    failure = explain_decision(job, Failure(FailureClass.STARTUP, reason, message), pod=found[0] if found else None)
    return lose_attempt(job, failure)


def decide_partial_gang(job: Job) -> Decision | None:
    """Ends an attempt that has waited long enough for a rejected pod."""
    due, since = give_up_due(job), held_since(job)
    if due is None or since is None or due > job.now:
        return None
    problem = _explain_rejection(job)
    held = sum(pod.attempt == job.attempt for pod in job.acting_pods)
    waited = int((job.now - since).total_seconds())
    message = f"{problem.message}; the {held} pods that exist were released after {waited} s"
    decision = lose_attempt(job, explain_decision(job, Failure(FailureClass.STARTUP, problem.reason, message)))
    return replace(decision, status=decision.status and replace(decision.status, start_line=release(job)))


def _explain_rejection(job: Job) -> Problem:
    if job.rejection is not None:
        return explain_rejection(job, job.rejection.problem)
    return Problem(QUOTA_EXCEEDED, "A quota rejected pods, and it is another job's turn to create")


def decide_partial_start(job: Job) -> Decision | None:
    """Ends the attempt when its deadline has passed, or its turn is over."""
    due = release_due(job)
    if due is None or due > job.now or find_unread(job) is not None:
        return None
    failure = Failure(FailureClass.STARTUP, PARTIAL_START, _explain_lack_of_nodes(job))
    decision = lose_attempt(job, explain_decision(job, failure, pod=find_waiting(job)))
    return replace(decision, status=decision.status and replace(decision.status, start_line=release_nodes(job)))


def _explain_lack_of_nodes(job: Job) -> str:
    pod, next_job, limit = find_waiting(job), find_turn(job), job.spec.partial_start_deadline_seconds
    if next_job is not None:
        why = f"the job's turn is over, and TrainJob {next_job.name} creates its pods now"
    else:
        why = f"no further pod got a node for {limit} s (spec.partialStartDeadlineSeconds)"
    cause = f"; pod {pod.name} cannot start: {pod.problem.message[:600]}" if pod and pod.problem else ""
    return f"{len(find_placed(job))} of {1 + job.desired_workers} pods had a node and were released: {why}{cause}"
