"""status.goodput, settled with each status write that happens anyway, and never a reason for one."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.facts.goodput import settle_time
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.status_change import UNSET, changes_anything
from railhead.resources.sizes import compute_sizes

USED = ("phase", "attempt", "round", "failure", "checkpoint", "worker_losses", "restarts", "counted_restarts")


def count_time(job: Job, decision: Decision) -> Decision:
    """Settles the time until now, or until the driver's last report. A finished job keeps what it has."""
    change, old = decision.status, job.status
    if change is None or change.is_guard or old.is_finished or not changes_anything(job, change):
        return decision
    new = old.model_copy(update={name: value for name in USED if (value := getattr(change, name)) is not UNSET})
    if old.goodput is None and new.attempt == old.attempt and new.phase != "Queued":
        return decision  # an operator that did not count has begun the attempt
    gpus = job.desired_workers * compute_sizes(job.spec).worker.ray["gpus"]
    return replace(decision, status=replace(change, goodput=settle_time(old, new, now=job.now, gpus=gpus)))
