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
    return WorkerLosses(
        rounds=known.rounds + 1,
        own_fault=known.own_fault + 1 if find_own_fault(job) else 0,
        checkpoint=known.checkpoint,
    )


def find_own_fault(job: Job) -> PodView | None:
    """A pod among those lost now for which the job itself may be at fault."""
    return next((pod for pod in _find_latest(job) if _is_own_fault(classify_pod(pod))), None)


def is_disrupted(job: Job) -> bool:
    """All pods lost now were taken by a disruption, or are gone without a trace."""
    failures = [classify_pod(pod) for pod in _find_latest(job)]
    return all(is_disruption(failure.class_, failure.reason) for failure in failures)


def _find_latest(job: Job) -> list[PodView]:
    """The pods lost now, one per slot; those of earlier rounds may still be terminating."""
    slots = frozenset(find_lost_slots(job))
    latest = {pod.slot: pod for pod in sorted(job.workers.lost, key=lambda pod: pod.round) if pod.slot in slots}
    return list(latest.values())


def _is_own_fault(failure: Failure) -> bool:
    """More memory, or less of what a limit counts, is needed, not another pod."""
    return failure.reason == TERMINATION_BY_KUBELET or failure.class_.policy.payer is Payer.APPLICATION
