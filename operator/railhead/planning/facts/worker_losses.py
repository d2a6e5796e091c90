"""Rounds of lost worker pods without a new checkpoint: what bounds them, and the backoff that they cause.

A job that commits checkpoints may lose worker pods for weeks and keeps its attempt.
"""

from __future__ import annotations

from railhead.api.status import WorkerLosses
from railhead.contract.failure import FailureClass
from railhead.planning.facts.failure_from_pod import classify_pod
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView

ROUNDS_WITHOUT_CHECKPOINT = 20
ROUNDS_OUT_OF_MEMORY = 3  # in a row: more memory or a smaller batch is needed, not another pod


def find_lost_slots(job: Job) -> tuple[int, ...]:
    """Slots whose pods were lost, empty if the status already counts the loss: their pods are just not created yet."""
    slots = job.empty_slots
    replaced = {pod.slot for pod in job.workers.lost if pod.round >= job.status.round}
    return slots if job.were_all_up or replaced.intersection(slots) else ()


def count_losses(job: Job) -> WorkerLosses:
    """The rounds so far since the newest checkpoint."""
    newest = job.status.checkpoint.index if job.status.checkpoint else -1
    known = job.status.worker_losses
    return known if known is not None and known.checkpoint >= newest else WorkerLosses(checkpoint=newest)


def add_loss(job: Job) -> WorkerLosses:
    """The same including the round that replaces the pods lost now."""
    known = count_losses(job)
    return WorkerLosses(
        rounds=known.rounds + 1,
        out_of_memory=known.out_of_memory + 1 if find_out_of_memory(job) else 0,
        checkpoint=known.checkpoint,
    )


def find_out_of_memory(job: Job) -> PodView | None:
    """An OOM-killed pod among those lost now; pods of earlier rounds may still be terminating."""
    slots = frozenset(find_lost_slots(job))
    latest = {pod.slot: pod for pod in sorted(job.workers.lost, key=lambda pod: pod.round) if pod.slot in slots}
    return next((pod for pod in latest.values() if classify_pod(pod).class_ is FailureClass.OUT_OF_MEMORY), None)
