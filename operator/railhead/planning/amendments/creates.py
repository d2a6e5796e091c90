"""What holds back the pods that a decision would create: another job's turn, or the backoff after a rejection. The
condition Reconciling reports why.

A rejected child is reported at once, and its create is retried after 5, 10, 20, 30, 30 ... s, or after 5, 10, 10 ... s
while other pods wait for it. Until then nothing is created for the job, whatever the pass has decided, and no restart
is counted: nothing was lost. The worker that was refused is asked for first, so that the others hold nothing while it
is refused. `facts/start_line.py` has the rule of the turns; each job's place is kept in its status.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.base import Object
from railhead.api.status import RESTING, Phase, StartLine
from railhead.planning.decisions.progress import show_progress
from railhead.planning.facts.deadlines import give_up_due
from railhead.planning.facts.reasons import QUOTA_EXCEEDED, REJECTIONS, WAITING_FOR_TURN
from railhead.planning.facts.settlement import rejected_until
from railhead.planning.facts.start_line import (
    TURN_SECONDS,
    explain_rejection,
    find_turn,
    has_exceeded_quota,
    leave,
    move,
    turn_end,
)
from railhead.planning.job import Job
from railhead.planning.plan import POD, QUOTA_PROBE, Create, Decision, Event
from railhead.planning.pod_view import Problem
from railhead.planning.status_change import UNSET, StatusChange, Unset, changes_anything, stand_still
from railhead.resources.quota_probe import build_quota_probe

_REFUSED_WORKER = re.compile(r"Pod \S+-w(\d+)-\d+ was rejected: ")
OUT: frozenset[Phase] = frozenset({"Suspending", *RESTING, "Succeeded", "Failed"})


def ask_for_refused_first(job: Job, decision: Decision) -> Decision:
    """Creates the worker pod that was refused last before the others: as long as it is refused, none of them holds a
    GPU. An elastic job may train without it, and a quota refuses any pod."""
    slot = _find_refused_slot(job)
    if slot is None or job.is_elastic:
        return decision
    refused = [create for create in decision.creates if create.kind == "Pod" and f"-w{slot}-" in create.name]
    others = [create for create in decision.creates if create not in refused]
    return replace(decision, creates=(*refused, *others))


def _find_refused_slot(job: Job) -> str | None:
    """Returns the slot of the worker pod that was refused in this attempt, or for which the one before was given up."""
    problem = job.rejection.problem if job.rejection is not None else _find_given_up(job)
    if problem is None or problem.reason not in REJECTIONS or problem.reason == QUOTA_EXCEEDED:
        return None
    found = _REFUSED_WORKER.match(problem.message)
    return found[1] if found is not None else None


def _find_given_up(job: Job) -> Problem | None:
    failure = job.status.failure
    if failure is None or failure.attempt < job.attempt - 1:
        return None
    return Problem(failure.reason, failure.message)


def hold_back(job: Job, decision: Decision, why: Problem, *, event: Literal["Normal", "Warning"]) -> Decision:
    """Only the decision's deletes remain. An elastic job with enough workers keeps training."""
    held = show_progress(job) if job.is_elastic and job.are_enough_up else _report_hold(job, why, event)
    return replace(held, deletes=decision.deletes)


def _report_hold(job: Job, problem: Problem, event: Literal["Normal", "Warning"]) -> Decision:
    """Reports a problem once, and again when it changes."""
    reason, message = problem.reason, problem.message
    if any((x.type, x.reason, x.message) == (types.RECONCILING, reason, message) for x in job.status.conditions):
        return Decision()
    status = stand_still(job, types.RECONCILING, reason=reason, message=message)
    news = Event(event, reason, message, is_series=True)
    return Decision(status=replace(status, phase=job.status.phase or "Pending"), events=(news,))


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


def probe_quota(job: Job, decision: Decision) -> Decision:
    """Asks for the quota of the whole job before it makes any pod, if the job did not fit into a quota even alone.

    Otherwise each attempt would make as many pods as fit, and release them at the first refusal.
    """
    pods = [each for each in decision.creates if isinstance(each, Create) and each.policy is POD]
    head_name = names.head_name(job.name, job.uid, _find_attempt(job, decision))
    head = next((each for each in pods if each.name == head_name), None)
    worker = next((each for each in pods if each is not head), None)
    if head is None or worker is None or not has_exceeded_quota(job):
        return decision

    def build() -> Object:
        return build_quota_probe(dict(head.build()), dict(worker.build()), workers=job.least_workers)

    return replace(decision, creates=(*decision.creates, Create(QUOTA_PROBE, head.name, build)))


def _find_attempt(job: Job, decision: Decision) -> int:
    """Returns the attempt that has the pods of this decision."""
    if decision.status is None or isinstance(decision.status.attempt, Unset):
        return job.attempt
    return decision.status.attempt


def keep_place(job: Job, decision: Decision) -> Decision:
    """Writes the job's place when it joins the line, moves or leaves, in the decision's own write if there is one."""
    change = decision.status or StatusChange()
    status = change.apply(job.status)
    wanted = _find_wanted(job, change, status.phase)
    if wanted == status.start_line:
        return decision
    return replace(decision, status=replace(change, start_line=wanted, is_guard=False))


def _find_wanted(job: Job, change: StatusChange, phase: Phase) -> StartLine | None:
    if phase in OUT:
        return None
    if change.start_line is not UNSET:
        return change.start_line  # as the decision says
    if _is_complete(job) or (phase == "Running" and not job.empty_slots):
        return leave(job, phase)
    return move(job)


def _is_complete(job: Job) -> bool:
    """Whether all its pods exist and have a node, so that it needs nothing more from quota or scheduler."""
    is_head_live = job.head is not None and job.head.is_live
    are_placed = len(job.live_pods) > job.desired_workers and all(pod.node for pod in job.live_pods)
    return not job.is_attempt_lost and is_head_live and are_placed


def hold_back_creates(job: Job, decision: Decision) -> Decision:
    """Drops the creates of the decision during the backoff after the API server's last rejection."""
    rejection = job.rejection
    if rejection is None or not decision.creates:
        return decision
    due = give_up_due(job)
    at = rejected_until(job, rejection, is_held=due is not None)
    if at <= job.now:
        return decision
    if decision.status is not None and not decision.status.is_guard and changes_anything(job, decision.status):
        held = replace(decision, creates=())  # the next pass reports why
    else:
        held = hold_back(job, decision, explain_rejection(job, rejection.problem), event="Warning")
    return held.waking(at).waking(due)
