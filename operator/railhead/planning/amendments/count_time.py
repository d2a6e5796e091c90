"""Counts in status.budget and status.goodput the time that a job has run, and what it was spent on.

After enough training, which the running time adds up, backoffLimit is full again. status.goodput is settled with each
write of the status that happens anyway, and is never a reason for one. A restored job has not run since the last moment
that its status knows, so its time counts until then.
"""

from __future__ import annotations

from dataclasses import asdict

from railhead.api import conditions as types
from railhead.api.fit import fit
from railhead.api.goodput import SpentStatus
from railhead.api.status import JobStatus, replace_budget, replace_status
from railhead.contract.numbers import MAX_INT32
from railhead.planning.facts.charged_failures import running_stretch
from railhead.planning.facts.goodput_account import settle_time
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.wanted_status import changes_anything
from railhead.resources.sizes import compute_sizes


def count_running_time(job: Job, decision: Decision) -> Decision:
    """Adds the stretch of training that the decision ends, for a job whose budget is not full."""
    old = job.status
    new = decision.status_after(job)
    budget = old.budget
    # A decision that charges a failure has begun another budget, which may be equal to this one.
    if budget is None or new.budget is not budget or not _ends_training(old, new):
        return decision
    seconds = min(budget.running_seconds + running_stretch(job.status, job.known_until), MAX_INT32)
    budget = replace_budget(budget, running_seconds=seconds)
    return decision.with_status(replace_status(new, budget=budget))


def count_time(job: Job, decision: Decision) -> Decision:
    """Settles status.goodput until now, or until the driver's last report. A finished job keeps what it has."""
    wanted = decision.wanted
    old = job.status
    if wanted is None or wanted.is_guard or old.is_finished or not changes_anything(job, wanted):
        return decision
    new = wanted.status
    if old.goodput is None and new.attempt == old.attempt and new.phase != "Queued":
        # An operator that did not count has begun the attempt.
        return decision
    gpus = job.desired_workers * compute_sizes(job.spec).worker.ray.gpus
    goodput = settle_time(old, new, now=job.known_until, gpus=gpus, last=_read_last_spent(job))
    return decision.with_status(replace_status(new, goodput=goodput))


def _read_last_spent(job: Job) -> SpentStatus | None:
    """Returns what the driver has counted until its end, by its termination message."""
    if job.outcome is None or job.outcome.spent is None:
        return None
    return fit(SpentStatus, asdict(job.outcome.spent))


def _ends_training(old: JobStatus, new: JobStatus) -> bool:
    return old.has_condition(types.RUNNING) and not new.has_condition(types.RUNNING)
