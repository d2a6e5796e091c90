"""Completes a job whose head has succeeded."""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.api.status import HeadStatus, ProgressStatus, WorkersStatus
from railhead.contract.outcome import Outcome
from railhead.contract.times import format_time
from railhead.planning.conditions import stand_still
from railhead.planning.facts.report import change_by_outcome, cut_count, cut_metrics
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.status_change import UNSET, Unset


def decide_success(job: Job) -> Decision | None:
    """The driver reports success: the job is complete, also when its head pod vanished before anyone looked.

    `decide_finished` deletes the workers.
    """
    head, outcome = job.head, job.outcome
    if outcome is None or not job.has_succeeded:
        return None
    message = f"Training finished in attempt {job.attempt}" + (f": {outcome.message}" if outcome.message else "")
    status = replace(
        stand_still(job, types.COMPLETE, reason="Succeeded", message=message),
        phase="Succeeded",
        completion_time=format_time((head.finished_at if head else None) or job.now),
        head=HeadStatus(pod=head.name, node=head.node) if head else UNSET,
        workers=WorkersStatus(desired=job.desired_workers),
        progress=_find_last_progress(job, outcome),
    )
    status = change_by_outcome(status, job.status, outcome, job.now)
    return Decision(status=status, events=(Event("Normal", "Succeeded", message),))


def _find_last_progress(job: Job, outcome: Outcome) -> ProgressStatus | Unset:
    """The final progress, if the driver's last report has not arrived (yet)."""
    known = job.status.progress
    is_of_attempt = known.attempt == job.attempt
    if is_of_attempt and known.state == "FINISHED":
        return UNSET
    return ProgressStatus(
        attempt=job.attempt,
        state="FINISHED",
        reports=cut_count(outcome.reports),
        joined=job.desired_workers,
        workers=known.workers if is_of_attempt else 0,
        metrics=cut_metrics(outcome.metrics),
        update_time=format_time(job.now),
        warning=known.warning if is_of_attempt else None,
        restart=known.restart if is_of_attempt else None,
    )
