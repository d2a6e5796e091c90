"""The start line: a job whose turn it is not creates no pods, and each job's place is kept in its status.

See `facts/start_line.py` for the rule.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api.status import Phase, StartLine
from railhead.planning.facts.deadlines import give_up_due
from railhead.planning.facts.reasons import WAITING_FOR_TURN
from railhead.planning.facts.start_line import TURN_SECONDS, find_turn, leave, move, turn_end
from railhead.planning.hold import hold_back
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import Problem
from railhead.planning.status_change import UNSET, StatusChange

OUT: frozenset[Phase] = frozenset({"Suspending", "Suspended", "Succeeded", "Failed"})


def wait_for_turn(job: Job, decision: Decision) -> Decision:
    """Drops the whole decision if it creates pods and it is another job's turn: no attempt begins without pods."""
    if not any(create.kind == "Pod" for create in decision.creates):
        return decision
    turn = find_turn(job)
    if turn is None:
        return decision
    message = f"Waits for its turn: TrainJob {turn.name} creates its pods now, for at most {TURN_SECONDS} s"
    if job.is_attempt_lost:
        decision = Decision()  # its ended pods are evidence until the next attempt
    held = hold_back(job, decision, Problem(WAITING_FOR_TURN, message), event="Normal")
    return held.waking(turn_end(turn, job.now)).waking(give_up_due(job))


def keep_place(job: Job, decision: Decision) -> Decision:
    """Writes the job's place when it joins the line, moves or leaves, in the decision's own write if there is one.

    Not before the job is deleted: the write would change the version that the delete names.
    """
    if decision.delete_job is not None:
        return decision
    status = decision.status or StatusChange()
    known, wanted = job.status.start_line, _find_wanted(job, status)
    if wanted == (known if status.start_line is UNSET else status.start_line):
        return decision
    return replace(decision, status=replace(status, start_line=wanted, is_guard=False))


def _find_wanted(job: Job, change: StatusChange) -> StartLine | None:
    phase = job.status.phase if change.phase is UNSET else change.phase
    if phase in OUT:
        return None
    if change.start_line is not UNSET:
        return change.start_line  # as the decision says
    if _is_complete(job) or (phase == "Running" and not job.empty_slots):
        return leave(job, phase)
    return move(job)


def _is_complete(job: Job) -> bool:
    """All its pods exist and have a node: it needs nothing more from the quota, nor from the scheduler."""
    pods = [*([job.head] if job.head else []), *job.workers.live]
    return not job.is_attempt_lost and len(pods) > job.desired_workers and all(pod.is_live and pod.node for pod in pods)
