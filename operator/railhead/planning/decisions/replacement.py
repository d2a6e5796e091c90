"""Fills the slots of lost workers in a new round.

A deleted pod leaves no trace to count, so the round is raised in the status before the
replacement is created, and the replacement's name contains it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.status import Disruptions, WorkersStatus
from railhead.planning.children import prerequisites, worker_pods
from railhead.planning.conditions import await_again, stand_still
from railhead.planning.decisions.progress import show_progress
from railhead.planning.facts.failure import describe_refusal
from railhead.planning.facts.reasons import NODE_REFUSED_POD
from railhead.planning.facts.settlement import (
    add_loss,
    find_lost_slots,
    find_refused,
    is_disrupted,
    is_refusal,
    replacement_at,
)
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.pod_view import PodView
from railhead.planning.status_change import UNSET, Requirement, StatusChange, Unset


def decide_replacement(job: Job) -> Decision | None:
    """Replaces, in the same attempt, worker pods that were created but are no longer alive."""
    slots = find_lost_slots(job)
    if not slots:
        return None
    at = replacement_at(job)
    if at > job.now:
        # An elastic job may train meanwhile.
        return (show_progress(job) if job.is_elastic else Decision()).waking(at)
    round_ = job.status.round + 1
    lost = [pod for pod in job.workers.lost if pod.slot in slots]
    is_refused, restarts = is_refusal(job), job.status.restarts
    message = _describe_refusal(job) if is_refused else _describe_loss(job, lost, slots)
    message = f"{message}; replacing them (round {round_})"
    event = Event("Warning", NODE_REFUSED_POD, message) if is_refused else Event("Warning", "WorkerReplaced", message)
    status = replace(
        _stand(job, NODE_REFUSED_POD if is_refused else "WorkerLost", message),
        round=round_,
        worker_losses=add_loss(job),
        restarts=restarts.model_copy(update={"infrastructure": restarts.infrastructure + (not is_refused)}),
        disruptions=_count_disruption(job),
        workers=WorkersStatus(desired=job.desired_workers, ready=job.workers_up, joined=job.workers_up),
    )
    status = await_again(job, status)
    if {pod.slot for pod in lost} != set(slots):
        status = status.requiring(Requirement.FRESH_PODS)  # gone without a trace, or not seen yet
    pods = worker_pods(job, attempt=job.attempt, slots=slots, round_=round_)
    return Decision(
        status=status,
        creates=(*prerequisites(job, attempt=job.attempt), *pods),
        deletes=delete_all(job.workers.lost),
        events=(event,),
    )


def _describe_loss(job: Job, lost: Sequence[PodView], slots: Sequence[int]) -> str:
    why = f"{lost[0].name} ({lost[0].last_words})" if lost else _describe_gone(job, slots[0])
    return f"{len(slots)} of {job.desired_workers} worker pods were lost: {why}"


def _describe_refusal(job: Job) -> str:
    """The first of the refused pods in the node's own words."""
    refused = find_refused(job)
    return f"{len(refused)} of {job.desired_workers} worker pods were refused. {describe_refusal(refused[0])}"


def _describe_gone(job: Job, slot: int) -> str:
    """A pod without a trace, of this round or an earlier one."""
    name = names.worker_name(job.name, job.uid, attempt=job.attempt, slot=slot, round_=0)
    return f"{name.removesuffix('0')}* (gone without a trace)"


def _stand(job: Job, reason: str, message: str) -> StatusChange:
    """An elastic job may continue without them: its driver reports so, and `show_progress` shows it."""
    if job.is_elastic:
        return StatusChange()
    return replace(stand_still(job, types.RECONCILING, reason=reason, message=message), phase="Restarting")


def _count_disruption(job: Job) -> Disruptions | Unset:
    if not is_disrupted(job):
        return UNSET
    known = job.status.all_disruptions
    return known.model_copy(update={"total": known.total + 1})
