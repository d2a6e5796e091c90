"""Starts an attempt: the intent goes into the status first, then the children are created."""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.api.status import HeadStatus, Phase, Waiting, WorkersStatus
from railhead.contract.times import format_time
from railhead.planning.children import (
    driver_removal,
    find_initial_checkpoint,
    head_pod,
    input_removal,
    prerequisites,
    worker_pods,
)
from railhead.planning.conditions import stand_still
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.status_change import UNSET, Requirement


def begin_attempt(job: Job, *, attempt: int, phase: Phase, again: bool = False) -> Decision:
    """Raises the attempt number and creates its children. `again`: training ran since the job started or resumed."""
    workers, mounts = job.wanted_workers, job.mounts_of(attempt)
    message = f"Attempt {attempt}: starting 1 head pod and {workers} worker pods"
    status = replace(
        stand_still(job, types.RECONCILING, reason=phase, message=message),
        phase=phase,
        attempt=attempt,
        round=0,
        driver=mounts.driver,
        input=mounts.input,
        source=mounts.source,
        secret=mounts.secret,
        worker_losses=None,
        counted_restarts=None,
        head=HeadStatus(),
        workers=WorkersStatus(desired=workers),
        resize=None,
        waiting=Waiting(since=format_time(job.now), again=again),
        start_time=job.status.start_time or format_time(job.now),
        initial_checkpoint=find_initial_checkpoint(job) or UNSET,
    ).requiring(Requirement.SAME_SPEC)  # an outdated spec must not start anything
    creates = (
        *prerequisites(job, attempt=attempt),
        head_pod(job, attempt=attempt, workers=workers),
        *worker_pods(job, attempt=attempt, slots=range(workers), round_=0),
    )
    return Decision(status=status, creates=creates)


def begin_next_attempt(job: Job, *, reason: str, phase: Phase, again: bool = False) -> Decision:
    """Starts the attempt after the current one, which can no longer act; `reason` is the event's."""
    attempt = job.attempt + 1
    known = f"; the newest known checkpoint is {job.status.checkpoint.index}" if job.status.checkpoint else ""
    event = Event("Normal", reason, f"Starting attempt {attempt}{known}")
    decision = begin_attempt(job, attempt=attempt, phase=phase, again=again)
    return replace(
        decision,
        status=decision.status and decision.status.requiring(Requirement.FRESH_PODS),  # the view may lack a head
        deletes=delete_all(job.pods),
        removes=(*driver_removal(job), *input_removal(job)),
        events=(*_report_abandoned_pods(job), event),
    )


def _report_abandoned_pods(job: Job) -> tuple[Event, ...]:
    """The node needs attention; the job does not wait for it."""
    left = job.abandoned_pods
    if not left:
        return ()
    pods = ", ".join(pod.place for pod in left[:3])
    message = (
        f"{len(left)} pods did not terminate within their grace period and are left behind: {pods}. A head that still "
        "runs there can no longer commit or delete anything (.railhead/ in the run's folder names the later attempt)"
    )
    return (Event("Warning", "PodsLeftBehind", message),)
