"""Rounds of lost worker pods without a new checkpoint: what bounds them, and the backoff that they cause.

A job that commits checkpoints may lose worker pods for weeks and keeps its attempt.
"""

from __future__ import annotations

from railhead.api.status import WorkerLosses
from railhead.contract.failure import Failure, Payer
from railhead.planning.facts.disruptions import TERMINATION_BY_KUBELET, is_disruption
from railhead.planning.facts.failure_from_pod import classify_pod
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView

ROUNDS_WITHOUT_CHECKPOINT = 20


def find_lost_slots(job: Job) -> tuple[int, ...]:
    """Slots whose pods were lost, empty if the status already counts the loss: their pods are just not created yet."""
    slots = job.empty_slots
    replaced = {pod.slot for pod in job.workers.lost if pod.round >= job.status.round}
    return slots if job.were_all_up or replaced.intersection(slots) else ()


def count_losses(job: Job) -> WorkerLosses:
    """The rounds so far since the newest checkpoint."""
    newest = job.status.newest_index
    known = job.status.worker_losses
    return known if known is not None and known.checkpoint >= newest else WorkerLosses(checkpoint=newest)


def add_loss(job: Job) -> WorkerLosses:
    """The same including the round that replaces the pods lost now."""
    known = count_losses(job)
    refused = count_refusals(job) + 1 if find_refused(job) else 0
    if is_refusal(job):
        return known.model_copy(update={"refused": refused})  # nothing that ran was lost
    return WorkerLosses(
        rounds=known.rounds + 1,
        own_fault=known.own_fault + 1 if find_own_fault(job) else 0,
        refused=refused,
        checkpoint=known.checkpoint,
    )


def count_refusals(job: Job) -> int:
    """Rounds in a row so far in which a node refused a pod; none once all pods were up. A checkpoint changes nothing:
    an elastic job commits while it waits."""
    known = job.status.worker_losses
    return 0 if known is None or job.were_all_up else known.refused


def find_refused(job: Job) -> list[PodView]:
    """The pods lost now that their nodes refused."""
    return [pod for pod in _find_latest(job) if pod.is_refused]


def is_refusal(job: Job) -> bool:
    """No pod that ran was lost now: nodes refused all of them."""
    latest = _find_latest(job)
    is_any_gone = job.were_all_up and len(latest) < len(find_lost_slots(job))
    return bool(latest) and not is_any_gone and all(pod.is_refused for pod in latest)


def find_own_fault(job: Job) -> PodView | None:
    """A pod among those lost now for which the job itself may be at fault."""
    return next((pod for pod in _find_latest(job) if _is_own_fault(classify_pod(pod))), None)


def is_disrupted(job: Job) -> bool:
    """All pods lost now that ran were taken by a disruption, or are gone without a trace."""
    failures = [classify_pod(pod) for pod in _find_latest(job) if not pod.is_refused]
    return not is_refusal(job) and all(is_disruption(failure.class_, failure.reason) for failure in failures)


def _find_latest(job: Job) -> list[PodView]:
    """The pods lost now, one per slot; those of earlier rounds may still be terminating."""
    slots = frozenset(find_lost_slots(job))
    latest = {pod.slot: pod for pod in sorted(job.workers.lost, key=lambda pod: pod.round) if pod.slot in slots}
    return list(latest.values())


def _is_own_fault(failure: Failure) -> bool:
    """More memory, or less of what a limit counts, is needed, not another pod."""
    return failure.reason == TERMINATION_BY_KUBELET or failure.class_.policy.payer is Payer.APPLICATION
