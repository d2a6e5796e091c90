"""Whose run it is: a job that was restored from a backup keeps its run, and no job begins in one that another job has.

The status of a restored TrainJob is that of an earlier object with another uid. It names the run, and only the operator
and an administrator who restores a status may write it. So the job continues there, as if it had been suspended since
the last moment that the status knows.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from railhead.api import conditions as types
from railhead.api.run_status import MAX_FORMER_UIDS, RunStatus
from railhead.api.status import HeadStatus, JobStatus, WorkersStatus, replace_status
from railhead.contract.times import format_time
from railhead.planning.facts.settlement import count_attempt
from railhead.planning.job import Job
from railhead.planning.observed import RunHolder
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.wanted_status import (
    Requirement,
    WantedStatus,
    make_condition,
    set_not_running,
    set_standing_conditions,
)

# The other job's changes do not wake this one.
LOOK_SECONDS = 10
RESTORED = "Restored"
RUN_IN_USE = "RunInUse"
OF_ANOTHER_JOB = "RestoredFromAnotherJob"
WITHOUT_STATUS = "RestoredWithoutStatus"
WAITS = "This TrainJob was restored from another one, and has no pods yet; the condition Stalled says what it waits for"
_WITHOUT_STATUS = (
    "this TrainJob was restored from a backup (label velero.io/restore-name) and has no status, so neither its run nor "
    "whether it has finished is known. Restore it with its status (--status-include-resources "
    "trainjobs.railhead.dev). To train from the beginning instead, or to continue in the run that spec.run.name names, "
    "remove that label"
)


def decide_restored(job: Job) -> Decision | None:
    """Makes the status of the earlier TrainJob this one's: suspended, without pods, in the same run."""
    if not job.is_restored or job.is_deleting:
        return None
    run = job.status.run
    if run is None or not run.uid:
        return _hold(job, OF_ANOTHER_JOB, _explain_unknown(job))
    if job.run_holder is not None:
        return _hold(job, RUN_IN_USE, _explain_holder(job, job.run_holder))
    message = f"This TrainJob was restored from one with uid {run.uid}; it continues in its run, {run.name}"
    # Pods that this TrainJob already has are of an attempt that knew nothing of the run.
    attempt = max([job.attempt, *(pod.attempt + 1 for pod in job.pods)])
    round_ = 0
    if attempt == job.attempt:
        # The record of the attempt has it, and the next attempt begins with 0 anyway.
        round_ = job.status.round
    suspended = _suspend_since_backup(job, message)
    if attempt > job.attempt:
        # `decide_resume` counts the later attempt; it would not see how the one that the backup shows has ended.
        suspended = count_attempt(job, suspended)
    status = replace_status(
        suspended,
        run=RunStatus(name=run.name, uid=job.uid, former_uids=_list_former(job, run)),
        attempt=attempt,
        round=round_,
        driver="",
        input="",
        source="",
        secret="",
        admission=None,
        worker_losses=None,
        stuck_pods=None,
        avoided_nodes=None,
        formerly_avoided_nodes=None,
    )
    # `counted_restarts` stays: the last report, which tells of these restarts, stays until the next attempt, too.
    wanted = WantedStatus(status).requiring(Requirement.FRESH_PODS)
    return Decision(wanted=wanted, events=(Event("Normal", RESTORED, message),))


def _suspend_since_backup(job: Job, message: str) -> JobStatus:
    """Returns the status of a job that has had no pods since the last moment that its status knows."""
    status = set_not_running(job, types.SUSPENDED, reason=RESTORED, message=message)
    suspended = make_condition(job, types.SUSPENDED, reason=RESTORED, message=message)
    suspended = suspended.model_copy(update={"last_transition_time": format_time(job.known_until)})
    return replace_status(
        status.with_conditions(suspended),
        phase="Suspended",
        head=HeadStatus(),
        workers=WorkersStatus(desired=job.desired_workers),
        resize=None,
        waiting=None,
    )


def _list_former(job: Job, run: RunStatus) -> list[str]:
    known = [uid for uid in (*(run.former_uids or ()), run.uid) if uid != job.uid]
    return list(dict.fromkeys(known))[-MAX_FORMER_UIDS:]


def _explain_unknown(job: Job) -> str:
    begin = "another name"
    if job.status.checkpoint is not None:
        begin = f"spec.resumeFrom.checkpoint: {job.status.checkpoint.uri}"
    return (
        "the status is that of another TrainJob, as an earlier version of Railhead wrote it, so its run is not known; "
        f"delete this TrainJob and create it again with {begin}"
    )


def _explain_holder(job: Job, holder: RunHolder) -> str:
    phase = holder.phase or "none"
    if holder.is_former:
        return (
            f"this TrainJob was restored from TrainJob {holder.namespace}/{holder.name}, phase {phase}, "
            "which still has the run; it continues there once that one has finished or is deleted"
        )
    return (
        f"run.name {job.run_name}: TrainJob {holder.name} (phase {phase}) has this run; this job "
        "starts once that one has finished or is deleted. To train at the same time, create this job with another "
        "run.name; spec.resumeFrom lets it begin from a checkpoint"
    )


def decide_run(job: Job) -> Decision | None:
    """Holds a job whose run another one has: it creates no pods, and is reconciled again every `LOOK_SECONDS`."""
    if job.attempt > 0 or job.pods:
        return None
    if job.is_from_backup:
        return _hold(job, WITHOUT_STATUS, _WITHOUT_STATUS)
    if job.run_holder is None:
        return None
    return _hold(job, RUN_IN_USE, _explain_holder(job, job.run_holder))


def _hold(job: Job, reason: str, message: str) -> Decision:
    stalled = make_condition(job, types.STALLED, reason=reason, message=message)
    if job.attempt == 0:
        status = replace_status(set_standing_conditions(job, stalled), phase="Pending")
    else:
        status = _suspend_since_backup(job, WAITS).with_conditions(stalled)
    decision = Decision(
        wanted=WantedStatus(status),
        deletes=delete_all(job.acting_pods),  # they began before the status was restored
        wake_at=job.now + timedelta(seconds=LOOK_SECONDS),
    )
    if job.status.reason_of(types.STALLED) == reason:
        return decision
    return replace(decision, events=(Event("Warning", reason, message),))
