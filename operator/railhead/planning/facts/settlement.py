"""Judges the end of an attempt: whether the job may try again, when, and which budget pays.

`settle` is asked when an attempt is lost. It answers with a `Settlement`, whose questions come in the order in which a
pass asks them: who pays (`payer`), whether the job must fail (`refusal`), when the next attempt may begin
(`next_attempt_at`), and what its counters are then (`count`).

The counters change in the write that starts the next attempt, so that deciding twice gives the same result. An
attempt that was suspended is counted in the same way (`count_attempt`) when the job resumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from railhead.api.attempts import Attempt
from railhead.api.status import FailureStatus, JobStatus, replace_restarts, replace_status
from railhead.contract.failure import FAIL, RESTART, RESTART_AND_IGNORE, FailureClass, Payer
from railhead.contract.metric_rule import METRIC_RULE
from railhead.contract.times import parse_time
from railhead.planning.facts.backoff import (
    REFUSED_LIMIT_SECONDS,
    RELEASED_LIMIT_SECONDS,
    grow,
    released_delay_seconds,
)
from railhead.planning.facts.failure_budget import charge_failures, count_failures, is_disruption_limit_reached
from railhead.planning.facts.pod_failure import LossReason, apply_rules, blame_application, is_disruption
from railhead.planning.facts.reasons import GIVEN_UP, NODE_REFUSED_POD, RELEASED
from railhead.planning.facts.suspects import is_of_new_node
from railhead.planning.job import Job

# OOM kills, or terminations by the kubelet, without a new checkpoint: then the job is at fault.
IN_A_ROW = 3


def settle(job: Job, failure: FailureStatus, *, committed: int) -> Settlement:
    """Judges the failure that ends the current attempt; `committed`: index of the run's newest checkpoint.

    Terminations by the kubelet in a row are the job's own fault, and a rule of spec.failurePolicy may decide what
    follows.
    """
    # Only an eviction for what the pod itself used; other disruptions have other reasons (`choose_loss_reason`).
    is_eviction = failure.reason == LossReason.TERMINATION_BY_KUBELET
    if is_eviction and not _has_new_checkpoint(job, committed) and _count_evictions(job) + 1 >= IN_A_ROW:
        failure = blame_application(failure, times=IN_A_ROW)
    # The rules come after the blame: a rule for application failures applies to a job that is blamed.
    failure, rule = apply_rules(job.spec, failure)
    return Settlement(job, failure, committed, rule)


def read_settlement(job: Job) -> Settlement | None:
    """Returns the settlement of the current attempt if the status records that it was lost."""
    failure = job.status.failure
    if failure is None or not job.is_attempt_lost:
        return None
    # Not `settle`: blame and rules were applied when the attempt was lost, and the failure has the result.
    return Settlement(job, failure, job.status.newest_index)


def count_attempt(job: Job, status: JobStatus) -> JobStatus:
    """Adds the current attempt, which is over, to the counters of `status`, which begins another one."""
    settlement = read_settlement(job)
    if settlement is not None:
        return settlement.count(status)
    # It was suspended, which no budget pays; a checkpoint before that ends the row all the same.
    if job.has_committed:
        return replace_status(status, restarts=replace_restarts(job.status.restarts, without_progress=0))
    return status


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
        # Before disruptions: a failure of hardware is never one, and the node is avoided from now on.
        if self._is_of_new_node:
            return Payer.NOBODY
        if is_disruption(failure.class_, failure.reason):
            return Payer.DISRUPTION
        return failure.class_.policy.payer

    @property
    def refusal(self) -> str:
        """Returns why the job must fail now; an empty string if another attempt may follow."""
        # The user's rules come first, then what no other attempt can change, then the budgets.
        return self._explain_final_cause() or self._explain_spent_budget()

    def _explain_final_cause(self) -> str:
        """Returns why no further attempt can help, or may follow, whatever is left of the budgets."""
        failure = self.failure
        if failure.action == FAIL:
            return f"{self.rule}: {FAIL}"
        is_restart_wanted = failure.action in (RESTART, RESTART_AND_IGNORE)
        if failure.class_.policy.final and not is_restart_wanted:
            return failure.class_.policy.final
        if failure.reason == METRIC_RULE and not failure.action and self._has_fired_before:
            return "the attempt before it ended alike, and this one committed no checkpoint"
        return ""

    def _explain_spent_budget(self) -> str:
        """Returns which limit is reached; an empty string if the payer can pay for another attempt."""
        spec = self.job.spec
        match self.payer:
            case Payer.APPLICATION if count_failures(self.job, committed=self.committed) >= spec.backoff_limit:
                return f"backoffLimit {spec.backoff_limit} is reached"
            case Payer.INFRASTRUCTURE:
                return self._explain_lack_of_progress()
            case Payer.DISRUPTION if is_disruption_limit_reached(self.job):
                return f"disruptionLimit {spec.disruption_limit} is reached"
        return ""

    def _explain_lack_of_progress(self) -> str:
        lost = self.job.status.restarts.without_progress
        limit = self.job.spec.no_progress_limit
        is_hang = self._is_early_hang
        if lost < limit or (self._has_new_checkpoint and not is_hang):
            return ""
        what = "committed no checkpoint"
        if is_hang:
            what += " or hung within backoffResetSeconds of training"
        return f"{lost + 1} attempts in a row {what} (noProgressLimit {limit})"

    @property
    def next_attempt_at(self) -> datetime:
        """Returns when the next attempt may begin."""
        now = self.job.now
        # The time may lie in the future, after a clock jump. It must not delay the next attempt.
        since = min(parse_time(self.failure.time) or now, now)
        return since + timedelta(seconds=self._delay_seconds)

    @property
    def _delay_seconds(self) -> float:
        failure = self.failure
        backoff = failure.class_.policy.backoff
        if failure.reason in RELEASED:
            return released_delay_seconds(self.job, failure.reason)
        if backoff.is_skipped_after_commit and self._has_new_checkpoint:
            # The cluster took a pod from a job that was making progress.
            return 0
        if failure.reason == NODE_REFUSED_POD:
            return grow(1, self._count_alike(), limit=REFUSED_LIMIT_SECONDS)
        if failure.class_ is FailureClass.STARTUP and failure.reason in GIVEN_UP:
            return grow(backoff.first, self._count_alike(), limit=RELEASED_LIMIT_SECONDS)
        return grow(backoff.first, self._count_earlier(), limit=backoff.limit)

    def _count_earlier(self) -> int:
        """Counts the earlier failures that lengthen the delay: each doubles it."""
        match self.payer:
            case Payer.APPLICATION:
                return count_failures(self.job, committed=self.committed)
            case Payer.STARTUP | Payer.DISRUPTION | Payer.IGNORED:
                if self._has_new_checkpoint:
                    return 0
                return self._count_alike()
            case Payer.NOBODY if self._is_of_new_node:
                return self._count_alike()
        return self.job.status.restarts.without_progress

    def count(self, status: JobStatus) -> JobStatus:
        """Adds the lost attempt to the counters of the status that begins the next one."""
        restarts = self.job.status.restarts
        in_a_row = restarts.without_progress
        disruptions = restarts.disruptions
        # A checkpoint is progress whoever pays, so the row ends with it.
        if self.job.has_committed and not self._is_early_hang:
            in_a_row = 0
        elif self.payer is Payer.INFRASTRUCTURE:
            in_a_row += 1
        if self.payer is Payer.DISRUPTION:
            disruptions += 1
        restarts = replace_restarts(restarts, disruptions=disruptions, without_progress=in_a_row)
        status = replace_status(status, restarts=restarts)
        if self.payer is Payer.APPLICATION:
            return charge_failures(self.job, status, 1)
        return status

    @property
    def _has_new_checkpoint(self) -> bool:
        return _has_new_checkpoint(self.job, self.committed)

    @property
    def _is_of_new_node(self) -> bool:
        """Returns whether the failure is the first of its node's hardware, so that another node may be fine.

        A job that avoids no nodes may get the same node again, so its budget pays.
        """
        return self.job.spec.avoids_nodes and is_of_new_node(self.job.status, self.failure)

    @property
    def _is_early_hang(self) -> bool:
        """Returns whether it hung, and had trained for less than backoffResetSeconds up to the newest checkpoint.

        That counts as if the attempt had no checkpoint. Otherwise a function that hangs after each checkpoint would
        start again forever.
        """
        if self.failure.class_ is not FailureClass.HANG or self.payer is not Payer.INFRASTRUCTURE:
            return False
        return self._trained_seconds < self.job.spec.reset_seconds

    @property
    def _trained_seconds(self) -> float:
        """Returns for how long the attempt trained up to the newest checkpoint; 0 if either time is unknown."""
        attempt = _find_attempt(self.job, self.job.attempt)
        checkpoint = self.job.status.checkpoint
        if attempt is None or checkpoint is None:
            return 0.0
        began = parse_time(attempt.running_time)
        committed = parse_time(checkpoint.time)
        if began is None or committed is None:
            return 0.0
        return (committed - began).total_seconds()

    @property
    def _has_fired_before(self) -> bool:
        """Returns whether a rule of spec.metricPolicy has ended the attempt before, too, with the same checkpoint."""
        before = _find_attempt(self.job, self.job.attempt - 1)
        return before is not None and before.reason == METRIC_RULE and not self._has_new_checkpoint

    def _count_alike(self) -> int:
        """Counts the attempts since the newest checkpoint that were lost as this one was: to a disruption, or with the
        same class."""
        earlier = _list_attempts_since_checkpoint(self.job)
        if is_disruption(self.failure.class_, self.failure.reason):
            return sum(_was_disrupted(attempt) for attempt in earlier)
        # Counted from status.attempts, which is bounded, but by more than it takes to reach the longest delay.
        return sum(attempt.class_ == self.failure.class_ for attempt in earlier)


def _has_new_checkpoint(job: Job, committed: int) -> bool:
    """Returns whether the current attempt has committed a checkpoint; `committed`: index of the newest one of the
    run."""
    return job.has_committed or committed > job.status.newest_index


def _count_evictions(job: Job) -> int:
    """Counts the attempts that the kubelet has evicted since the last checkpoint, without another disruption between
    them; an eviction for which the job was blamed is one of them."""
    number = 0
    for attempt in _list_attempts_since_checkpoint(job):
        if attempt.reason == LossReason.TERMINATION_BY_KUBELET:
            number += 1
        elif _was_disrupted(attempt):
            break
    return number


def _list_attempts_since_checkpoint(job: Job) -> list[Attempt]:
    """Lists the attempts before the current one since the one with the newest checkpoint, the latest first."""
    committed_by = 0
    if job.status.checkpoint:
        committed_by = job.status.checkpoint.attempt
    return [each for each in _latest_first(job) if committed_by < each.number < job.attempt]


def _find_attempt(job: Job, number: int) -> Attempt | None:
    return next((each for each in job.status.attempts or () if each.number == number), None)


def _latest_first(job: Job) -> Iterable[Attempt]:
    return reversed(job.status.attempts or ())


def _was_disrupted(attempt: Attempt) -> bool:
    return is_disruption(FailureClass.parse(attempt.class_), attempt.reason)
