"""Whether a job may try again, and when: what lost attempts and lost worker pods spend, what bounds them, and how long
the job waits before it begins an attempt, replaces pods or creates them again.

The counters change in the write that starts the next attempt or round, so that deciding twice gives the same result. A
job that commits checkpoints may lose worker pods for weeks and keeps its attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from railhead.api.attempts import Attempt
from railhead.api.spec import TrainJobSpec
from railhead.api.status import Budget, FailureStatus, JobStatus, WorkerLosses
from railhead.contract.failure import FAIL, RESTART, RESTART_AND_IGNORE, Failure, FailureClass, Payer
from railhead.contract.metric_rule import METRIC_RULE
from railhead.contract.times import parse_time
from railhead.planning.facts.backoff import RELEASED_LIMIT_SECONDS, grow, released_delay_seconds
from railhead.planning.facts.failure_budget import count_charged
from railhead.planning.facts.pod_failure import (
    KILLED_CODES,
    LossReason,
    apply_rules,
    blame_application,
    classify_pod,
    is_disruption,
)
from railhead.planning.facts.reasons import GIVEN_UP, NODE_REFUSED_POD, RELEASED
from railhead.planning.facts.suspects import is_of_new_node
from railhead.planning.job import Job
from railhead.planning.observed import Observed, Rejection
from railhead.planning.pod_view import PodView
from railhead.planning.status_change import StatusChange

IN_A_ROW = 3  # OOM kills, or terminations by the kubelet, without a new checkpoint: then the job is at fault
ROUNDS_WITHOUT_CHECKPOINT = 20
REPLACEMENT_LIMIT_SECONDS = 60
OWN_FAULT_FIRST_SECONDS = 10
REJECTED_LIMIT_SECONDS = 30
HELD_LIMIT_SECONDS = 10
REFUSED_LIMIT_SECONDS = 60


@dataclass(frozen=True)
class Settlement:
    """Answers whether the job may try again after its current attempt, when, and which budget pays.

    Attributes:
        failure: the failure that ended the attempt.
        committed: index of the run's newest checkpoint, -1 = none.
        rule: path of the rule of spec.failurePolicy that gave the failure its action, if it was found just now.
    """

    job: Job
    failure: FailureStatus
    committed: int
    rule: str = ""

    @property
    def payer(self) -> Payer:
        """Returns the budget that the attempt spends."""
        failure = self.failure
        if failure.action == RESTART_AND_IGNORE:
            return Payer.IGNORED
        if self._is_of_new_node:
            return Payer.NOBODY
        if is_disruption(failure.class_, failure.reason):
            return Payer.DISRUPTION
        return failure.class_.policy.payer

    @property
    def refusal(self) -> str:
        """Returns why the job must fail now; an empty string if another attempt may follow."""
        job = self.job
        failure = self.failure
        payer = self.payer
        if failure.action == FAIL:
            return f"{self.rule}: {FAIL}"
        if failure.class_.policy.final and failure.action not in (RESTART, RESTART_AND_IGNORE):
            return failure.class_.policy.final
        if failure.reason == METRIC_RULE and not failure.action and self._has_fired_before:
            return "the attempt before it ended alike, and this one committed no checkpoint"
        if payer is Payer.APPLICATION and count_failures(job, committed=self.committed) >= job.spec.backoff_limit:
            return f"backoffLimit {job.spec.backoff_limit} is reached"
        lost = job.status.restarts.without_progress
        is_hang = self._is_early_hang
        is_loss = payer is Payer.INFRASTRUCTURE and (is_hang or not is_progress(job, self.committed))
        if is_loss and lost >= job.spec.no_progress_limit:
            what = "committed no checkpoint" + (" or hung within backoffResetSeconds of training" if is_hang else "")
            return f"{lost + 1} attempts in a row {what} (noProgressLimit {job.spec.no_progress_limit})"
        if payer is Payer.DISRUPTION and is_disruption_limit_reached(job):
            return f"disruptionLimit {job.spec.disruption_limit} is reached"
        return ""

    @property
    def next_attempt_at(self) -> datetime:
        """Returns when the next attempt may begin."""
        now = self.job.now
        since = min(parse_time(self.failure.time) or now, now)  # a time in the future (a clock jump) delays nothing
        return since + timedelta(seconds=self._delay_seconds)

    @property
    def _delay_seconds(self) -> float:
        job = self.job
        failure = self.failure
        status = self.job.status
        if failure.reason in RELEASED:
            return released_delay_seconds(job, failure.reason)
        backoff = failure.class_.policy.backoff
        has_progress = is_progress(job, self.committed)
        if backoff.is_skipped_after_commit and has_progress:
            return 0  # the cluster took a pod from a job that was making progress
        if failure.reason == NODE_REFUSED_POD:
            return grow(1, self._count_alike(), limit=REFUSED_LIMIT_SECONDS)
        if failure.class_ is FailureClass.STARTUP and failure.reason in GIVEN_UP:
            return grow(backoff.first, self._count_alike(), limit=RELEASED_LIMIT_SECONDS)
        match self.payer:
            case Payer.APPLICATION:
                times = count_failures(job, committed=self.committed)
            case Payer.STARTUP | Payer.DISRUPTION | Payer.IGNORED:
                times = 0 if has_progress else self._count_alike()
            case _ if self._is_of_new_node:
                times = self._count_alike()
            case _:
                times = status.restarts.without_progress
        return grow(backoff.first, times, limit=backoff.limit)

    @property
    def _is_of_new_node(self) -> bool:
        """Whether the hardware of another node may be fine. Of a job that avoids no nodes, the next attempt may well
        use the same one."""
        return self.job.spec.avoids_nodes and is_of_new_node(self.job.status, self.failure)

    def _count_alike(self) -> int:
        """Counts the attempts since the newest checkpoint that were lost as this one was: to a disruption, or with the
        same class."""
        earlier = _find_fruitless(self.job)
        if is_disruption(self.failure.class_, self.failure.reason):
            return sum(is_disruption(FailureClass.parse(each.class_), each.reason) for each in earlier)
        return sum(each.class_ == self.failure.class_ for each in earlier)

    @property
    def _is_early_hang(self) -> bool:
        """Whether it hung within backoffResetSeconds of training before the newest checkpoint.

        That counts as if the attempt had none. Otherwise a function that hangs after each checkpoint would start again
        forever.
        """
        status = self.job.status
        if self.failure.class_ is not FailureClass.HANG or self.payer is not Payer.INFRASTRUCTURE:
            return False
        attempt = next((each for each in status.attempts or () if each.number == self.job.attempt), None)
        began = parse_time(attempt.running_time) if attempt else None
        committed = parse_time(status.checkpoint.time) if status.checkpoint else None
        trained = (committed - began).total_seconds() if began and committed else 0.0
        return trained < self.job.spec.backoff_reset_seconds

    @property
    def _has_fired_before(self) -> bool:
        """Whether a rule of spec.metricPolicy has ended the attempt before, too, with the same checkpoint."""
        before = next((each for each in self.job.status.attempts or () if each.number == self.job.attempt - 1), None)
        return before is not None and before.reason == METRIC_RULE and not is_progress(self.job, self.committed)

    def count(self, change: StatusChange) -> StatusChange:
        """Adds the lost attempt to the counters, in the change that begins the next one."""
        restarts = self.job.status.restarts
        made_progress = self.job.has_committed and not self._is_early_hang
        if made_progress:
            in_a_row = 0
        else:
            in_a_row = restarts.without_progress + (self.payer is Payer.INFRASTRUCTURE)
        disruptions = restarts.disruptions + (self.payer is Payer.DISRUPTION)
        restarts = restarts.model_copy(update={"disruptions": disruptions, "without_progress": in_a_row})
        change = replace(change, restarts=restarts)
        if self.payer is Payer.APPLICATION:
            return charge_failures(self.job, change, 1)
        return change


def settle(job: Job, failure: FailureStatus, *, committed: int) -> Settlement:
    """Judges the failure that ends the current attempt: what happens in a row is the job's own fault, and a rule of
    spec.failurePolicy may decide what follows."""
    is_eviction = failure.reason == LossReason.TERMINATION_BY_KUBELET and not is_progress(job, committed)
    if is_eviction and _count_evictions(job) + 1 >= IN_A_ROW:
        failure = blame_application(failure, times=IN_A_ROW)
    failure, rule = apply_rules(job.spec, failure)
    return Settlement(job, failure, committed, rule)


def _find_fruitless(job: Job) -> list[Attempt]:
    """Returns the attempts before the current one since the one with the newest checkpoint, the latest first."""
    committed_by = job.status.checkpoint.attempt if job.status.checkpoint else 0
    return [each for each in reversed(job.status.attempts or ()) if committed_by < each.number < job.attempt]


def _count_evictions(job: Job) -> int:
    """Returns how many attempts the kubelet has evicted since the last checkpoint, without another disruption between
    them; an eviction for which the job was blamed is one of them."""
    number = 0
    for attempt in _find_fruitless(job):
        if attempt.reason == LossReason.TERMINATION_BY_KUBELET:
            number += 1
        elif is_disruption(FailureClass.parse(attempt.class_), attempt.reason):
            break
    return number


def charge_failures(job: Job, change: StatusChange, number: int) -> StatusChange:
    """Adds failures of the application to those that spec.backoffLimit counts; refilling begins again."""
    committed = job.status.newest_index
    failures = count_failures(job, committed=committed) + number
    restarts = change.apply(job.status).restarts.model_copy(update={"application": failures})
    return replace(change, restarts=restarts, budget=Budget(checkpoint=committed))


def is_progress(job: Job, committed: int) -> bool:
    """Whether the current attempt has committed this checkpoint; `committed`: index of the newest one of the run."""
    return job.has_committed or committed > job.status.newest_index


def is_disruption_limit_reached(job: Job) -> bool:
    limit = job.spec.disruption_limit
    return limit is not None and job.status.restarts.disruptions >= limit


def count_failures(job: Job, *, committed: int) -> int:
    """Counts the failures that spec.backoffLimit counts now: none after enough training with a newer checkpoint."""
    reset = job.spec.backoff_reset_seconds
    return count_charged(job.status, job.now, reset_seconds=reset, committed=committed)


def count_allowed_restarts(spec: TrainJobSpec, status: JobStatus, now: datetime) -> int:
    """How many charged restarts in place the current attempt may have in all, those that it has had included."""
    counted = status.counted_restarts.charged if status.counted_restarts else 0
    reset = spec.backoff_reset_seconds
    used = count_charged(status, now, reset_seconds=reset, committed=status.newest_index)
    return counted + max(spec.backoff_limit - used, 0)


def find_lost_slots(job: Job) -> tuple[int, ...]:
    """Slots whose pods were lost, empty if the status already counts the loss: their pods are just not created yet."""
    slots = job.empty_slots
    replaced = {pod.slot for pod in job.workers.lost if pod.round >= job.status.round}
    if job.were_all_up or replaced.intersection(slots):
        return slots
    return ()


def count_losses(job: Job) -> WorkerLosses:
    """The rounds so far since the newest checkpoint."""
    newest = job.status.newest_index
    known = job.status.worker_losses
    if known is not None and known.checkpoint >= newest:
        return known
    return WorkerLosses(checkpoint=newest)


def add_loss(job: Job) -> WorkerLosses:
    """Counts the rounds with the one that replaces the pods lost now."""
    known = count_losses(job)
    refused = count_refusals(job) + 1 if find_refused(job) else 0
    if is_refusal(job):
        return known.model_copy(update={"refused": refused})  # nothing that ran was lost
    own_fault = 0
    if find_own_fault(job):
        own_fault = known.own_fault + 1
    return WorkerLosses(
        rounds=known.rounds + 1,
        own_fault=own_fault,
        refused=refused,
        checkpoint=known.checkpoint,
    )


def add_refusal(job: Job) -> WorkerLosses:
    """Counts a round in a row in which a node did not start a pod."""
    return count_losses(job).model_copy(update={"refused": count_refusals(job) + 1})


def count_refusals(job: Job) -> int:
    """Rounds in a row so far in which a node refused a pod; none once all pods were up. A checkpoint changes nothing:
    an elastic job commits while it waits."""
    known = job.status.worker_losses
    if known is None or job.were_all_up:
        return 0
    return known.refused


def find_refused(job: Job) -> list[PodView]:
    """The pods lost now that their nodes refused."""
    return [pod for pod in _find_latest(job) if pod.is_refused]


def find_ended_unseen(job: Job) -> list[PodView]:
    """The pods lost now whose nodes rebooted, the head included, as far as nothing else explains their end."""
    head = [job.head] if job.head is not None and job.head.has_ended else []
    lost = (*head, *_find_latest(job))
    return [pod for pod in lost if pod.reason == LossReason.STATUS_UNKNOWN and pod.disruption is None]


def is_refusal(job: Job) -> bool:
    """No pod that ran was lost now: nodes refused all of them."""
    latest = _find_latest(job)
    is_any_gone = job.were_all_up and len(latest) < len(find_lost_slots(job))
    return bool(latest) and not is_any_gone and all(pod.is_refused for pod in latest)


def find_own_fault(job: Job) -> PodView | None:
    """A pod among those lost now for which the job itself may be at fault."""
    return next((pod for pod in _find_latest(job) if _is_own_fault(classify_pod(pod))), None)


def is_disrupted(job: Job) -> bool:
    """Whether disruptions took all pods lost now that ran, or these are gone without a trace."""
    failures = [classify_pod(pod) for pod in _find_latest(job) if not pod.is_refused]
    return not is_refusal(job) and all(is_disruption(failure.class_, failure.reason) for failure in failures)


def _find_latest(job: Job) -> list[PodView]:
    """The pods lost now, one per slot; those of earlier rounds may still be terminating."""
    slots = frozenset(find_lost_slots(job))
    latest = {pod.slot: pod for pod in sorted(job.workers.lost, key=attrgetter("round")) if pod.slot in slots}
    return list(latest.values())


def _is_own_fault(failure: Failure) -> bool:
    """More memory, or less of what a limit counts, is needed, not another pod."""
    return failure.reason == LossReason.TERMINATION_BY_KUBELET or failure.class_.policy.payer is Payer.APPLICATION


def replacement_at(job: Job) -> datetime:
    """When lost workers may be replaced: at once after a deletion or a disruption, later after a pod that failed by
    itself, and later each time after one that the job itself may be at fault for, or that a node refused."""
    if is_refusal(job):
        return _refused_until(job)
    faulty = find_own_fault(job)
    ended_at = _find_end(faulty, job.now) if faulty is not None else None
    if ended_at is not None:
        delay = grow(OWN_FAULT_FIRST_SECONDS, count_losses(job).own_fault, limit=REPLACEMENT_LIMIT_SECONDS)
        return ended_at + timedelta(seconds=delay)
    failed = [pod for pod in job.workers.lost if pod.has_ended and not _was_stopped(pod)]
    ended = [at for pod in failed if (at := _find_end(pod, job.now)) is not None]
    if not ended or job.were_all_up:
        return job.now
    return max(ended) + timedelta(seconds=grow(1, count_losses(job).rounds, limit=REPLACEMENT_LIMIT_SECONDS))


def _refused_until(job: Job) -> datetime:
    """Allows it at once after the first refusal in a row, then 1, 2, 4, ... 60 s after the refused pod was created:
    the kubelet does not say when it refused it."""
    known = count_refusals(job)
    created = [min(pod.created_at, job.now) for pod in find_refused(job) if pod.created_at]
    if known == 0 or not created:
        return job.now
    return max(created) + timedelta(seconds=grow(1, known - 1, limit=REFUSED_LIMIT_SECONDS))


def _was_stopped(pod: PodView) -> bool:
    """Whether the cluster or a person stopped it, so that another pod may be fine at once."""
    failure = classify_pod(pod)
    return pod.exit_code in KILLED_CODES or is_disruption(failure.class_, failure.reason)


def _find_end(pod: PodView, now: datetime) -> datetime | None:
    """When it ended, by its node's clock. For one that is fast it has not ended yet: then since its creation."""
    at = pod.finished_at
    if at is None or at <= now:
        return at
    return pod.created_at


def rejected_until(observed: Observed, rejection: Rejection, *, is_held: bool) -> datetime:
    """When to retry what the API server has rejected; `is_held`: other pods wait for it."""
    limit = HELD_LIMIT_SECONDS if is_held else REJECTED_LIMIT_SECONDS
    return min(rejection.at, observed.now) + timedelta(seconds=grow(5, rejection.tries - 1, limit=limit))
