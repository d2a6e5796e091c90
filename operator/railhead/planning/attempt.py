"""How an attempt begins and how it ends without success.

The intent goes into the status first, then the children are created; the failure is recorded before anything is
deleted.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from railhead.api import conditions as types
from railhead.api.run_status import RunStatus
from railhead.api.status import (
    FailureStatus,
    HeadStatus,
    JobStatus,
    Phase,
    ProgressStatus,
    Waiting,
    WorkersStatus,
    replace_status,
)
from railhead.contract.times import format_time
from railhead.planning.child_kinds import remove_pod_group
from railhead.planning.children import (
    driver_removal,
    find_initial_checkpoint,
    head_pod,
    input_removal,
    prerequisites,
    worker_pods,
)
from railhead.planning.facts.admission import choose_admission, count_workers
from railhead.planning.facts.reasons import GIVEN_UP
from railhead.planning.facts.reported_progress import change_by_outcome, with_estimate
from railhead.planning.facts.settlement import settle
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.wanted_status import (
    Requirement,
    WantedStatus,
    make_condition,
    set_not_running,
    set_standing_conditions,
)

NO_GANG = (
    ", each scheduled by itself: spec.scheduling.gangScheduler is Auto, and the API server serves no PodGroup of "
    "scheduling.k8s.io that Railhead knows. For a gang, turn on Kubernetes' gang scheduling, which the next attempt "
    "then uses, or suspend the job and name the gang scheduler that the cluster has"
)


def begin_attempt(job: Job, *, attempt: int, phase: Phase, again: bool = False) -> Decision:
    """Raises the attempt number and creates its children. `again`: training ran since the job started or resumed."""
    mounts = job.mounts_of(attempt)
    admission = choose_admission(job)
    workers = count_workers(job, admission)
    message = f"Attempt {attempt}: starting 1 head pod and {workers} worker pods"
    message += NO_GANG if job.chosen_gang == "None" else ""
    status = replace_status(
        set_not_running(job, types.RECONCILING, reason=phase, message=message),
        phase=phase,
        run=RunStatus(name=job.run_name, uid=job.uid, former_uids=list(job.ref.former_uids) or None),
        attempt=attempt,
        # Names of worker pods contain attempt and round, so the count may begin again.
        round=0,
        # Recorded with the attempt: an operator of another version must give later pods of it the same mounts.
        driver=mounts.driver,
        input=mounts.input,
        source=mounts.source,
        secret=mounts.secret,
        admission=admission,
        gang_scheduler=job.chosen_gang,
        worker_losses=None,
        # The new driver counts its restarts from zero.
        counted_restarts=None,
        # Empty, or `was_head_up` would take the head that is not created yet for lost.
        head=HeadStatus(),
        workers=WorkersStatus(desired=workers),
        resize=None,
        waiting=Waiting(since=format_time(job.now), again=again),
        # Of the job, not of the attempt: spec.activeDeadlineSeconds counts from the first one.
        start_time=job.status.start_time or format_time(job.now),
        initial_checkpoint=find_initial_checkpoint(job) or job.status.initial_checkpoint,
    )
    # An outdated spec must not start anything.
    wanted = WantedStatus(status).requiring(Requirement.SAME_SPEC)
    creates = (
        # The order among creates is that of `plan.Step`; this one is for readers.
        *prerequisites(job, attempt=attempt),
        head_pod(job, attempt=attempt, workers=workers),
        *worker_pods(job, attempt=attempt, slots=range(workers), round_=0),
    )
    return Decision(wanted=wanted, creates=creates)


def begin_next_attempt(job: Job, *, reason: str, phase: Phase, again: bool = False) -> Decision:
    """Starts the attempt after the current one, which can no longer act; `reason` is the event's."""
    attempt = job.attempt + 1
    known = ""
    if job.status.checkpoint:
        known = f"; the newest known checkpoint is {job.status.checkpoint.index}"
    event = Event("Normal", reason, f"Starting attempt {attempt}{known}")
    decision = begin_attempt(job, attempt=attempt, phase=phase, again=again)
    return replace(
        decision,
        wanted=decision.wanted and decision.wanted.requiring(Requirement.FRESH_PODS),  # the view may lack a head
        # All of them, also terminated ones, which were kept as evidence until now.
        deletes=delete_all(job.pods),
        forgotten=(*driver_removal(job), *input_removal(job), *remove_pod_group(job)),
        events=(*_report_abandoned_pods(job), event),
    )


def _report_abandoned_pods(job: Job) -> tuple[Event, ...]:
    """Tells of nodes that need attention; the job does not wait for them."""
    left = job.abandoned_pods
    if not left:
        return ()
    pods = ", ".join(pod.place for pod in left[:3])
    message = (
        f"{len(left)} pods did not terminate within their grace period and are left behind: {pods}. A head that still "
        "runs there can no longer commit or delete anything (.railhead/ in the run's folder names the later attempt)"
    )
    return (Event("Warning", "PodsLeftBehind", message),)


def lose_attempt(job: Job, failure: FailureStatus) -> Decision:
    """Ends the attempt: the next one follows, or the job fails."""
    status = _conclude(job, failure)
    # By the status after the failure: the termination message may bring a checkpoint that no report told of.
    settlement = settle(job, failure, committed=status.newest_index)
    # A rule, or three evictions in a row, may have changed class and action.
    failure = settlement.failure
    if settlement.refusal:
        return fail_job(job, failure, because=settlement.refusal)
    message = describe_loss(job, failure, next_at=settlement.next_attempt_at)
    reason = failure.reason or "Restarting"
    status = replace_status(status, phase="Restarting", failure=failure).with_conditions(
        make_condition(job, types.RECONCILING, reason="Restarting", message=message),
        make_condition(job, types.RUNNING, reason=reason, message=message, is_true=False),
    )
    return Decision(
        wanted=_require_pods(status),
        # A terminated pod holds no resources and is evidence: it stays until the next attempt starts.
        deletes=delete_all(pod for pod in job.pods if pod.is_live),
        # The next attempt gets this operator's driver, so the old one may go with the last job that used it.
        removes=driver_removal(job),
        events=(Event("Warning", "Restarting", message),),
        wake_at=settlement.next_attempt_at,
    )


def describe_loss(job: Job, failure: FailureStatus, *, next_at: datetime) -> str:
    """Returns what a job says between two attempts; `next_at`: when the next one may begin."""
    message = (
        f"Attempt {job.attempt} was lost ({failure.class_}: {failure.message[:600]}); attempt {job.attempt + 1} follows"
    )
    if failure.reason in GIVEN_UP:
        message += f" at {format_time(next_at)} or later"
    return message


def fail_job(job: Job, failure: FailureStatus, *, because: str) -> Decision:
    """Ends the job: no attempt follows. `decide_finished` deletes the pods."""
    message = f"{failure.class_}: {failure.message} ({because})"
    reason = failure.reason or failure.class_
    status = replace_status(
        _conclude(job, failure),
        phase="Failed",
        completion_time=format_time(job.now),
        workers=WorkersStatus(desired=job.desired_workers),
    ).with_conditions(
        make_condition(job, types.FAILED, reason=reason, message=message),
        make_condition(job, types.STALLED, reason=reason, message=message),
        make_condition(job, types.RUNNING, reason="Failed", message=message, is_true=False),
    )
    return Decision(wanted=_require_pods(status), events=(Event("Warning", "Failed", message[:1000]),))


def _conclude(job: Job, failure: FailureStatus) -> JobStatus:
    """Returns the failure and the last checkpoints."""
    status = replace_status(set_standing_conditions(job), failure=failure, progress=_end_estimate(job.status.progress))
    return change_by_outcome(status, job.outcome, job.now)


def _require_pods(status: JobStatus) -> WantedStatus:
    """Requires that the view holds all pods of the attempt, which ends once, for one cause."""
    return WantedStatus(status).requiring(Requirement.FRESH_PODS)


def _end_estimate(progress: ProgressStatus) -> ProgressStatus:
    """Removes the estimate: how long training takes is not known until the next attempt trains."""
    if progress.remaining is None:
        return progress
    return with_estimate(progress, percent=progress.percent_complete, seconds=None)
