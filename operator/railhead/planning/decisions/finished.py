"""A job that has finished, or finishes with success: what remains of it, for how long, and its last checkpoint.

A finished job holds no worker pods. Its terminated head pod stays for the log, unless a sidecar still runs.
spec.keepPodsSeconds then deletes the children, which a GitOps tool does not know, and keeps the TrainJob;
spec.ttlSecondsAfterFinished deletes the TrainJob, as for a batch/v1 Job, and garbage collection its children.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api import conditions as types
from railhead.api.fit import fit
from railhead.api.names import HEAD
from railhead.api.status import HeadStatus, JobStatus, ProgressStatus, WorkersStatus, replace_status
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from railhead.contract.times import format_time, parse_time
from railhead.planning.children import driver_removal, removals
from railhead.planning.facts.deadlines import clean_up_due, deletion_due
from railhead.planning.facts.reported_progress import change_by_outcome, find_last_warning, with_estimate
from railhead.planning.job import Job
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, DeleteJob, Event, delete_all
from railhead.planning.pod_view import PodView
from railhead.planning.wanted_status import WantedStatus, set_not_running

SIDECAR_SECONDS = 60  # for a head's other containers to end after its driver


def decide_success(job: Job) -> Decision | None:
    """Completes the job whose driver reports success, also when its head pod vanished before anyone looked.

    `decide_finished` deletes the workers.
    """
    head = job.head
    outcome = job.outcome
    if outcome is None or not job.has_succeeded:
        return None
    message = f"Training finished in attempt {job.attempt}" + (f": {outcome.message}" if outcome.message else "")
    status = replace_status(
        set_not_running(job, types.COMPLETE, reason="Succeeded", message=message),
        phase="Succeeded",
        # By the head's clock, so limits after the end count from the condition instead (`facts.deadlines`).
        completion_time=format_time((head.finished_at if head else None) or job.now),
        head=HeadStatus(pod=head.name, node=head.node) if head else job.status.head,
        workers=WorkersStatus(desired=job.desired_workers),
        progress=_build_last_progress(job, outcome),
    )
    status = change_by_outcome(status, outcome, job.now)
    return Decision(wanted=WantedStatus(status), events=(Event("Normal", "Succeeded", message),))


def _build_last_progress(job: Job, outcome: Outcome) -> ProgressStatus:
    """Returns the final progress, also if the driver's last report has not arrived (yet)."""
    known = job.progress
    if known.state == "FINISHED":  # by Ray Train, before the driver's own end
        if known.percent_complete == 100:
            return known
        return with_estimate(known, percent=100, seconds=0)
    values = {
        "attempt": job.attempt,
        "state": "FINISHED",
        "reports": outcome.reports,
        "joined": job.desired_workers,
        "workers": known.workers,
        "step": known.step,
        "total_steps": known.total_steps,
        "metrics": outcome.metrics,
        "update_time": format_time(job.now),
        "warning": find_last_warning(job),
        "restart": known.restart,
    }
    return with_estimate(fit(ProgressStatus, values), percent=100, seconds=0)


def decide_finished(observed: Observed) -> Decision | None:
    """Deletes what is left, even if the spec is no longer valid."""
    if not observed.status.is_finished:
        return None
    head = observed.head
    # Deleted before the workers, which the last commit needs; the wake-up ends the wait for a node that is silent.
    if head is not None and may_commit(observed, head):
        return Decision(deletes=delete_all([head]), wake_at=head.gone_by or observed.find_protected_end(head))
    due = (parse_time(observed.status.completion_time) or observed.now) + timedelta(seconds=SIDECAR_SECONDS)
    # A terminated head keeps its log and its message, and holds no resources.
    kept = [
        pod for pod in observed.pods if pod.role == HEAD and (pod.is_over or (pod.has_ended and observed.now < due))
    ]
    has_sidecar = any(not pod.is_over and not pod.is_deleting for pod in kept)
    wake_at = None
    if has_sidecar:
        wake_at = due
    return Decision(
        wanted=find_last_checkpoint(observed),
        deletes=delete_all(pod for pod in observed.pods if pod not in kept),
        wake_at=wake_at,
    )


def may_commit(observed: Observed, head: PodView) -> bool:
    """Returns whether the driver, terminated by a deadline, waits for one more committed checkpoint, which needs the
    workers."""
    failure = observed.status.failure
    if failure is None or failure.class_ is not FailureClass.DEADLINE_EXCEEDED or head.has_ended:
        return False
    if head.is_deleting:
        return head.may_still_end(observed.now)
    end = observed.find_protected_end(head)
    return end is None or observed.now < end


def find_last_checkpoint(observed: Observed) -> WantedStatus | None:
    """Returns the status with the checkpoints that `add_last_checkpoint` adds, or None if it adds nothing."""
    status = add_last_checkpoint(observed, observed.status)
    if status != observed.status:
        return WantedStatus(status)
    return None


def add_last_checkpoint(observed: Observed, status: JobStatus) -> JobStatus:
    """Adds the checkpoints in the termination message of a terminated head, if the status lacks them."""
    head = observed.head
    if head is None or not head.has_ended:
        return status
    return change_by_outcome(status, head.outcome, observed.now)


def decide_deletion(job: Job) -> Decision | None:
    """Deletes the job after its TTL. A precondition keeps one that changed meanwhile, for example to a longer TTL."""
    if job.is_deleting or _is_early(job, deletion_due(job)):
        return None
    return Decision(delete_job=DeleteJob(job.uid, job.version), removes=driver_removal(job))


def decide_clean_up(job: Job) -> Decision | None:
    """Deletes the children once. The status records it: the operator does not watch all of them, such as Secrets."""
    if _is_early(job, clean_up_due(job)):
        return None
    deletes = delete_all(job.pods)
    if job.status.clean_up_time:
        return Decision(deletes=deletes)
    done = WantedStatus(replace_status(job.status, clean_up_time=format_time(job.now)))
    return Decision(deletes=deletes, removes=(*removals(job), *driver_removal(job)), last=done)


def _is_early(job: Job, due: datetime | None) -> bool:
    """Returns whether its time has not come, or the status does not have the last report of the head yet."""
    if due is None or due > job.now:
        return True
    # The pod's object is the only place of a message that is not in the status yet; deleting it would lose a
    # checkpoint.
    return job.head is not None and (may_commit(job, job.head) or find_last_checkpoint(job) is not None)
