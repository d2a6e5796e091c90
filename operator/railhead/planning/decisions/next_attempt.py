"""Which attempt begins, and from which checkpoint: the first one, once spec.resumeFrom can be used, and the one after
a lost attempt, once the backoff is over and no pod of the lost one can act; and the restarts within an attempt.

The checkpoint of spec.resumeFrom goes into the status with the first attempt, so that all attempts use the same one,
whatever becomes of the other job.

The driver's restarts of the worker group in the same pods count exactly once each. The driver reports cumulative
numbers for its attempt, and the status holds those that are counted already: both change in one write, before anything
else is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from railhead.api import conditions as types
from railhead.api.fit import fit
from railhead.api.names import HEAD, WORKER
from railhead.api.run import ResumeFrom
from railhead.api.status import CountedRestarts, FailureStatus, replace_status
from railhead.contract.times import parse_time
from railhead.planning.attempt import begin_attempt, begin_next_attempt, describe_loss
from railhead.planning.children import find_source_checkpoint
from railhead.planning.facts.failure_budget import charge_failures
from railhead.planning.facts.settlement import read_settlement
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.pod_view import UNANSWERED_SECONDS, PodView
from railhead.planning.wanted_status import WantedStatus, make_condition, set_not_running, set_standing_conditions

# The other job's changes do not wake this one.
LOOK_SECONDS = 10
NOT_FOUND = "SourceNotFound"
RUNS = "SourceStillRuns"
NOTHING = "SourceHasNoCheckpoint"
WAITING_FOR_PODS = "WaitingForPods"
ENDING_SECONDS = 5  # from a container's end to its pod's
PATIENCE_SECONDS = 30  # for pods to terminate; a longer wait is reported


def decide_resume_source(job: Job) -> Decision | None:
    """Holds a job without its initial checkpoint: it creates no pods, and is reconciled again every `LOOK_SECONDS`."""
    wanted = job.spec.resume_from
    # A job with pods has started, and its status was wiped.
    if wanted is None or job.attempt > 0 or job.pods:
        return None
    problem = _find_problem(job, wanted)
    if problem is None:
        return None
    reason, message = problem
    is_news = job.status.reason_of(types.STALLED) != reason
    stalled = set_standing_conditions(job, make_condition(job, types.STALLED, reason=reason, message=message))
    events: tuple[Event, ...] = ()
    if is_news:
        events = (Event("Warning", reason, message),)
    return Decision(
        wanted=WantedStatus(replace_status(stalled, phase="Pending")),  # also of one that was created suspended
        events=events,
        wake_at=job.now + timedelta(seconds=LOOK_SECONDS),
    )


def _find_problem(job: Job, wanted: ResumeFrom) -> tuple[str, str] | None:
    """Returns reason and message, or None if it can be used."""
    if wanted.train_job is None:
        return None
    field = f"spec.resumeFrom.trainJob {wanted.train_job}"
    source = job.source
    # A job that waits for itself would wait forever.
    if source is None or wanted.train_job == job.name:
        selector = job.settings.job_selector
        unseen = ""
        if selector:
            unseen = f", or its labels do not match {selector} of this operator"
        if wanted.train_job == job.name:
            where = "is this job itself"
        else:
            where = f"does not exist{unseen}"
        return NOT_FOUND, f"{field} {where}; name another TrainJob in namespace {job.namespace}, or a checkpoint"
    if not source.is_finished:
        return RUNS, f"{field} has not ended; this job starts when it has, or name one of its checkpoints"
    if find_source_checkpoint(job) is None:
        what = "checkpoint"
        if wanted.best:
            what = "bestCheckpoint (run.checkpoint.scoreAttribute)"
        return NOTHING, f"{field} has ended without a {what} in its status; name another TrainJob, or omit resumeFrom"
    return None


def decide_first_attempt(job: Job) -> Decision | None:
    """Starts the first attempt of a job that never ran.

    If somebody wiped the status of a running job or set it back, its pods show which attempt it is
    in: that attempt is resumed, and its children are found by their names. If the view of the job is
    just stale, the compare fails, and nothing is done.
    """
    alive = job.acting_pods
    # Attempts only grow, so a pod of a later one proves that the status was set back.
    later = max((pod.attempt for pod in alive), default=0) > job.attempt
    if job.attempt > 0 and not later:
        return None
    heads = [pod.attempt for pod in alive if pod.role == HEAD and pod.attempt > job.attempt]
    # A head tells the attempt with more certainty than a worker: there is one per attempt.
    attempt = max([1, *(heads or [pod.attempt for pod in alive])])
    decision = begin_attempt(job, attempt=attempt, phase="Pending" if attempt == 1 else "Restarting")
    # Nothing is created while the status is only brought in line: the next pass sees which pods exist.
    if job.attempt > 0:
        return replace(decision, creates=())
    return decision


def decide_next_attempt(job: Job) -> Decision | None:
    """Waits, or raises the attempt and its counters in one write.

    The next attempt waits until no pod of the lost one may still run: never two heads. For a pod whose node does
    not respond, it waits until `UNANSWERED_SECONDS` after the grace period; if that pod is a head that still
    runs, the fence in the run's storage keeps it from committing.
    """
    settlement = read_settlement(job)
    if settlement is None:
        return None
    failure = settlement.failure
    # Two heads in one run would both commit. The fence in the storage is the second line, not the first.
    remains = _list_awaited(job)
    if remains:
        return _wait_for(job, remains, since=parse_time(failure.time) or job.now)
    if settlement.next_attempt_at > job.now:
        return _wait_until(job, failure, settlement.next_attempt_at)
    again = job.status.waiting is None or job.status.waiting.again
    decision = begin_next_attempt(job, reason="AttemptStarted", phase="Restarting" if again else "Pending", again=again)
    return decision.with_status(settlement.count(decision.status_after(job)))


def _wait_until(job: Job, failure: FailureStatus, at: datetime) -> Decision:
    """Waits until then, and no longer says that the attempt waits for pods, which have ended."""
    if job.status.reason_of(types.RECONCILING) != WAITING_FOR_PODS:
        return Decision(wake_at=at)
    message = describe_loss(job, failure, next_at=at)
    status = set_not_running(job, types.RECONCILING, reason="Restarting", message=message)
    return Decision(wanted=WantedStatus(status), wake_at=at)


def _list_awaited(job: Job) -> list[PodView]:
    """Returns the pods for which the next attempt waits.

    Workers that may not be deleted are not among them, since they commit nothing and have names of their own, unless
    there are so many that the job would take twice the GPUs once more.
    """
    kept = [pod for pod in job.acting_pods if pod.role == WORKER and pod.name in job.protected]
    if len(kept) > job.desired_workers:
        return list(job.acting_pods)
    return [pod for pod in job.acting_pods if pod not in kept]


def _wait_for(job: Job, remains: Sequence[PodView], *, since: datetime) -> Decision:
    """Deletes the remaining pods, and reports a long wait."""
    since = min(since, job.now)
    over_at = since + timedelta(seconds=ENDING_SECONDS)
    reported_at = since + timedelta(seconds=PATIENCE_SECONDS)
    # A pod whose container has terminated ends by itself, and is evidence.
    deletes = delete_all(pod for pod in remains if not pod.has_ended or job.now >= over_at)
    if job.now < reported_at:
        return Decision(deletes=deletes, wake_at=over_at if job.now < over_at else reported_at)
    if job.status.reason_of(types.RECONCILING) == WAITING_FOR_PODS:
        # The status reports it already, and the list of pods may change in every pass.
        return Decision(deletes=deletes)
    pods = ", ".join(pod.place for pod in remains[:3])
    message = (
        f"Attempt {job.attempt + 1} waits for {len(remains)} pods of attempt {job.attempt} to terminate: {pods}; "
        f"if a node does not respond, for at most {UNANSWERED_SECONDS} s after the grace period"
    )
    status = set_standing_conditions(
        job, make_condition(job, types.RECONCILING, reason=WAITING_FOR_PODS, message=message)
    )
    return Decision(wanted=WantedStatus(status), deletes=deletes, events=(Event("Warning", WAITING_FOR_PODS, message),))


def decide_restarts_in_place(job: Job) -> Decision | None:
    """Adds those that are new. The termination message may know more of them than the last report that arrived."""
    reported = _count_reported(job)
    counted = job.status.counted_restarts or CountedRestarts()
    # The driver's numbers only grow within an attempt, so a report that arrives late or twice adds nothing.
    number = reported.number - counted.number
    charged = reported.charged - counted.charged
    if number <= 0:
        return None
    status = replace_status(job.status, counted_restarts=reported)
    if charged > 0:
        status = charge_failures(job, status, charged)
    return Decision(
        wanted=WantedStatus(status),
        events=(Event("Warning", "RestartedInPlace", _describe(job, reported)),),
    )


def _count_reported(job: Job) -> CountedRestarts:
    """Returns the restarts of the attempt by the newest of its reports and its outcome."""
    restart = job.progress.restart
    outcome = job.outcome
    number = restart.number if restart else 0
    charged = restart.charged if restart else 0
    if outcome is not None:
        # The termination message is written after the last report, which may not have arrived.
        number = max(number, outcome.restarts)
        charged = max(charged, outcome.charged_restarts)
    return fit(CountedRestarts, {"number": number, "charged": charged})


def _describe(job: Job, reported: CountedRestarts) -> str:
    last = job.progress.restart
    is_known = last is not None and last.number == reported.number
    cause = "the head's log says why"
    if last and is_known:
        cause = f"{last.class_}: {last.message[:800]}"
    return (
        f"Restart {reported.number} of the worker group in the pods of attempt {job.attempt}, of which "
        f"{reported.charged} count in backoffLimit {job.spec.backoff_limit} ({cause})"
    )
