"""What a lost attempt or lost worker pods spend, and when nothing is left.

The counters change in the write that starts the next attempt or round, so that deciding twice
gives the same result.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from railhead.api import conditions as types
from railhead.api.spec import TrainJobSpec
from railhead.api.status import Budget, Disruptions, FailureStatus, JobStatus
from railhead.contract.failure import FailureClass, Payer
from railhead.contract.failure_rules import RESTART, RESTART_AND_IGNORE
from railhead.contract.times import parse_time
from railhead.planning.facts.disruptions import TERMINATION_BY_KUBELET, is_disruption
from railhead.planning.job import Job
from railhead.planning.status_change import StatusChange

IN_A_ROW = 3  # OOM kills, or terminations by the kubelet, without a new checkpoint: then the job is at fault


def find_payer(failure: FailureStatus) -> Payer:
    if failure.action == RESTART_AND_IGNORE:
        return Payer.IGNORED
    kind = FailureClass.parse(failure.class_)
    return Payer.DISRUPTION if is_disruption(kind, failure.reason) else kind.policy.payer


def find_spent(job: Job, failure: FailureStatus, *, committed: int) -> str:
    """Why the job must fail now, or an empty string. `committed`: index of the newest checkpoint, -1 = none."""
    policy, payer = FailureClass.parse(failure.class_).policy, find_payer(failure)
    if policy.final and failure.action not in (RESTART, RESTART_AND_IGNORE):
        return policy.final
    if payer is Payer.APPLICATION and count_failures(job, committed=committed) >= job.spec.backoff_limit:
        return f"backoffLimit {job.spec.backoff_limit} is reached"
    lost, is_hang = job.status.restarts.without_progress, _is_early_hang(job, failure)
    is_loss = payer is Payer.INFRASTRUCTURE and (is_hang or not is_progress(job, committed))
    if is_loss and lost >= job.spec.no_progress_limit:
        what = "committed no checkpoint" + (" or hung within backoffResetSeconds of training" if is_hang else "")
        return f"{lost + 1} attempts in a row {what} (noProgressLimit {job.spec.no_progress_limit})"
    if payer is Payer.DISRUPTION and is_disruption_limit_reached(job):
        return f"disruptionLimit {job.spec.disruption_limit} is reached"
    return ""


def is_progress(job: Job, committed: int) -> bool:
    """The current attempt has committed this checkpoint; `committed`: index of the newest one of the run."""
    return job.has_committed or committed > job.status.newest_index


def _is_early_hang(job: Job, failure: FailureStatus) -> bool:
    """Within backoffResetSeconds of training before the newest checkpoint: counts as if the attempt had none.

    Otherwise a function that hangs after each checkpoint would start again forever.
    """
    if failure.class_ != FailureClass.HANG or find_payer(failure) is not Payer.INFRASTRUCTURE:
        return False
    attempt = next((each for each in job.status.attempts or () if each.number == job.attempt), None)
    began = parse_time(attempt.running_time) if attempt else None
    committed = parse_time(job.status.checkpoint.time) if job.status.checkpoint else None
    trained = (committed - began).total_seconds() if began and committed else 0.0
    return trained < job.spec.backoff_reset_seconds


def is_disruption_limit_reached(job: Job) -> bool:
    limit = job.spec.disruption_limit
    return limit is not None and job.status.all_disruptions.total >= limit


def count_failures(job: Job, *, committed: int) -> int:
    """Those that spec.backoffLimit counts now: none after enough training with a newer checkpoint."""
    return _count_failures(job.spec, job.status, job.now, committed)


def count_allowed_restarts(spec: TrainJobSpec, status: JobStatus, now: datetime) -> int:
    """How many charged restarts in place the current attempt may have in all, those that it has had included."""
    counted = status.counted_restarts.charged if status.counted_restarts else 0
    return counted + max(spec.backoff_limit - _count_failures(spec, status, now, status.newest_index), 0)


def _count_failures(spec: TrainJobSpec, status: JobStatus, now: datetime, committed: int) -> int:
    budget = status.budget
    if budget is None:
        return 0
    has_trained = budget.running_seconds + running_stretch(status, now) >= spec.backoff_reset_seconds
    return 0 if has_trained and committed > budget.checkpoint else budget.failures


def running_stretch(status: JobStatus, now: datetime) -> int:
    """For how many seconds training has run without a break; 0 while it does not run."""
    since = status.true_since(types.RUNNING)
    return max(int((now - since).total_seconds()), 0) if since else 0


def count_attempt(job: Job, failure: FailureStatus, change: StatusChange) -> StatusChange:
    """Adds the lost attempt to the counters."""
    payer, restarts = find_payer(failure), job.status.restarts
    kind = FailureClass.parse(failure.class_).policy.payer
    made_progress = job.has_committed and not _is_early_hang(job, failure)
    in_a_row = 0 if made_progress else restarts.without_progress + (payer is Payer.INFRASTRUCTURE)
    restarts = restarts.model_copy(
        update={
            "application": restarts.application + (kind is Payer.APPLICATION),
            "infrastructure": restarts.infrastructure + (kind in (Payer.INFRASTRUCTURE, Payer.DISRUPTION)),
            "startup": restarts.startup + (kind is Payer.STARTUP),
            "without_progress": in_a_row,
        }
    )
    change = replace(change, restarts=restarts)
    if payer is Payer.APPLICATION:
        committed = job.status.newest_index
        failures = count_failures(job, committed=committed) + 1
        change = replace(change, budget=Budget(failures=failures, checkpoint=committed))
    known = job.status.all_disruptions
    attempts, by_kubelet = (0, 0) if job.has_committed else (known.attempts, known.by_kubelet)
    is_disrupted = payer is Payer.DISRUPTION
    if payer in (Payer.DISRUPTION, Payer.IGNORED) and not job.has_committed:
        attempts, by_kubelet = attempts + 1, by_kubelet + 1 if failure.reason == TERMINATION_BY_KUBELET else 0
    counted = Disruptions(total=known.total + is_disrupted, attempts=attempts, by_kubelet=by_kubelet)
    return change if counted == Disruptions() else replace(change, disruptions=counted)
