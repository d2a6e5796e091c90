"""Brings the number of worker pods of an elastic job in line with the spec.

Scaling up creates pods at once; the driver adds them to the group right after a committed
checkpoint. Scaling down deletes pods right after a committed checkpoint, because the group
loses what it has trained since the last one. Until then the intent is in the status.
"""

from __future__ import annotations

from railhead.api.status import Resize, WorkersStatus
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.status_change import GUARD, UNSET, Requirement, StatusChange


def decide_resize(job: Job) -> Decision | None:
    """Resizes an attempt whose number of workers differs from spec.scaling.desiredWorkers."""
    if not job.is_elastic or job.attempt == 0:
        return None
    surplus = delete_all(pod for pod in job.surplus_workers if pod.name not in job.denied)
    if surplus:
        return Decision(status=GUARD.requiring(Requirement.SAME_DESIRED_WORKERS), deletes=surplus)
    wanted, resize = job.wanted_workers, job.status.resize
    if wanted > job.desired_workers:
        return _apply(job, wanted)
    if wanted == job.desired_workers:
        return _announce(None) if resize is not None else None
    if not job.is_training:
        return _apply(job, wanted)
    if resize is None or resize.worker_pods != wanted:
        return _announce(Resize(worker_pods=wanted, after_checkpoint=job.status.newest_index))
    return _apply(job, wanted) if job.status.newest_index > resize.after_checkpoint else None


def _apply(job: Job, wanted: int) -> Decision:
    """Changes only the status: the following passes create and delete pods accordingly.

    What is deleted was not lost, also if the job grows again before it is gone: a smaller group begins another round,
    which no counter has, and of a larger one at most the pods of the smaller one are known to be ready.
    """
    known, now = job.status.workers, job.desired_workers
    workers = WorkersStatus(desired=wanted, ready=min(known.ready, now, wanted), joined=known.joined)
    message = f"Resizing from {now} to {wanted} worker pods (spec.scaling.desiredWorkers)"
    round_ = job.status.round + 1 if wanted < now else UNSET
    status = StatusChange(workers=workers, resize=None, round=round_).requiring(Requirement.SAME_SPEC)
    return Decision(status=status, events=(Event("Normal", "Resized", message),))


def _announce(resize: Resize | None) -> Decision:
    """An outdated spec must not remove pods."""
    return Decision(status=StatusChange(resize=resize).requiring(Requirement.SAME_SPEC))
