"""What one reconcile pass sees of one job, as a frozen value with queries.

`controller/store.py` builds it once per pass; `now` is one of its fields. It never contains
children of another job, not even of an older one with the same name. Queries that need the
spec are in `Job`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

from railhead.api import names
from railhead.api.parsed_spec import InvalidSpec
from railhead.api.spec import GRACE_SECONDS_OF_GPUS, TrainJobSpec
from railhead.api.status import JobStatus, ProgressStatus
from railhead.contract.outcome import Outcome
from railhead.contract.times import parse_time
from railhead.planning.pod_view import UNANSWERED_SECONDS, PodView, Problem
from railhead.planning.queue_view import QueueView
from railhead.resources.base import OperatorSettings

DENIED_LIMIT_SECONDS = 15
# After the last denial, when the delete is no longer tried or the API server was away: another one begins a new row.
DENIED_ROW_SECONDS = 180
DeniedVerb = Literal["delete", "change"]
ChildKind = Literal["Pod", "Service", "Secret", "ConfigMap", "NetworkPolicy", "PodGroup", "Workload"]


@dataclass(frozen=True)
class Rejection:
    """The API server rejected a child of this attempt; kept until every wanted child could be created.

    Attributes:
        tries: rejections in a row.
        at: time of the last rejection.
        since: time of the first of these rejections; starts again with the operator.
    """

    problem: Problem
    attempt: int
    tries: int
    at: datetime
    since: datetime


@dataclass(frozen=True)
class Remove:
    """One object to delete that is not a pod; it may already be gone.

    Attributes:
        is_shared: no job owns it.
        api_versions: of a kind that several groups or versions have: whichever of them exists.
        version: the resourceVersion that it must have still; "" = any. An administrator may have changed a Workload.
    """

    kind: ChildKind
    name: str
    is_shared: bool = False
    api_versions: tuple[str, ...] = ()
    version: str = ""


@dataclass(frozen=True)
class Denial:
    """The API server denied to delete or to change an object of the job; kept until the object is gone or changed.

    Attributes:
        message: in the API server's words.
        tries: denials in a row.
        at: time of the last one.
        since: time of the first one, None = the last one is also the first.
        remove: what was to be removed, so that it can be tried again when the status has forgotten its name.
    """

    kind: str
    name: str
    message: str
    tries: int
    at: datetime
    verb: DeniedVerb = "delete"
    since: datetime | None = None
    remove: Remove | None = None

    @property
    def began(self) -> datetime:
        return self.since or self.at


@dataclass(frozen=True)
class RunHolder:
    """Another job that has a run, or that gets it first.

    Attributes:
        is_former: this job was restored from it.
    """

    namespace: str
    name: str
    phase: str
    is_former: bool = False


@dataclass(frozen=True)
class Announced:
    """What has an event.

    Attributes:
        index: of the newest commit that has one, -1 = none; sent at `at`, None = by an earlier operator process.
        slow_ranks: each with the time since when it is slow.
    """

    index: int = -1
    at: datetime | None = None
    slow_ranks: frozenset[tuple[int, str]] = frozenset()


@dataclass(frozen=True)
class Observed:
    """One job and its pods at one moment.

    Attributes:
        spec: the spec, or why it is invalid.
        version: resourceVersion of the job.
        is_driver_shared: another unfinished job of the namespace runs the driver of this job's attempt.
        led_since: when this operator became the leader; None = no other one led before.
        denials: what the operator was not allowed to delete or to change.
        foreign_pods: names of the pods that carry the job's label and are not its own.
        source: status of the job that spec.resumeFrom.trainJob names, if that job exists.
        queue: what Kueue says, also about a job without a queue.
        run_holder: the other job that has the run of this one, None if there is none.
        is_from_backup: a backup tool has made the object again.
        serves_pod_groups: whether the API server has Kubernetes' own PodGroup; known only if `may_choose_gang`.
    """

    now: datetime
    namespace: str
    name: str
    uid: str
    generation: int
    is_deleting: bool
    spec: TrainJobSpec | InvalidSpec
    status: JobStatus
    pods: tuple[PodView, ...]
    settings: OperatorSettings
    version: int = 0
    source: JobStatus | None = None
    rejection: Rejection | None = None
    announced: Announced | None = None
    led_since: datetime | None = None
    denials: tuple[Denial, ...] = ()
    foreign_pods: tuple[str, ...] = ()
    is_driver_shared: bool = False
    queue: QueueView = field(default_factory=QueueView)
    serves_pod_groups: bool = False
    run_holder: RunHolder | None = None
    is_from_backup: bool = False

    @property
    def is_restored(self) -> bool:
        """Returns whether the status was written for another TrainJob: one of the same name, from which a backup was
        made.

        An earlier version of Railhead did not record the uid, but the names of the children have its beginning.
        """
        run = self.status.run
        if run is not None and run.uid:
            # The API server gives each object a new uid, so a restored status still has that of the object that was
            # backed up.
            return run.uid != self.uid
        found = re.fullmatch(rf"{re.escape(self.name)}-([0-9a-f]{{6}})-input-.*", self.status.input)
        return found is not None and found[1] != names.tag(self.uid)

    @cached_property
    def known_until(self) -> datetime:
        """Returns until when the status tells what the job did.

        That is now, but for a restored status the last moment that it knows: the time since then was spent without the
        job.
        """
        # The time between the backup and the restore belongs to no attempt: counting it would show hours of lost
        # goodput.
        if not self.is_restored:
            return self.now
        status = self.status
        texts = [
            status.start_time,
            status.progress.update_time,
            status.goodput.time if status.goodput else None,
            status.checkpoint.time if status.checkpoint else None,
            *(condition.last_transition_time for condition in status.conditions),
        ]
        return min(max((time for text in texts if (time := parse_time(text))), default=self.now), self.now)

    @property
    def attempt(self) -> int:
        return self.status.attempt

    @cached_property
    def pod_uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.pods)

    @cached_property
    def head(self) -> PodView | None:
        """Returns the head of the current attempt, identified by its name."""
        # By its name, which follows from the job and the attempt: a copy of the head has its labels, but not its name.
        wanted = names.head_name(self.name, self.uid, self.attempt)
        return next((pod for pod in self.pods if pod.role == names.HEAD and pod.name == wanted), None)

    @cached_property
    def leaving_pods(self) -> tuple[PodView, ...]:
        """Returns pods of any attempt that are being deleted."""
        return tuple(pod for pod in self.pods if pod.deletion_timestamp is not None)

    @cached_property
    def acting_pods(self) -> tuple[PodView, ...]:
        """Returns pods of any attempt that may still act; the job waits for them."""
        return tuple(pod for pod in self.pods if pod.may_act(self.now))

    @cached_property
    def abandoned_pods(self) -> tuple[PodView, ...]:
        """Returns pods that the job no longer waits for."""
        return tuple(pod for pod in self.pods if not pod.is_over and not pod.may_act(self.now))

    @property
    def next_out_of_reach(self) -> datetime | None:
        """Returns when the next pod goes out of reach."""
        times = (pod.out_of_reach_at for pod in self.leaving_pods)
        return min((at for at in times if at is not None and at > self.now), default=None)

    @property
    def stuck_pods(self) -> list[PodView]:
        """Returns pods of any attempt that should have been gone for minutes, the longest overdue first."""
        # Sorted also by name, so that pods that are deleted together keep their order, and the status is not written
        # again.
        due = [(at, pod) for pod in self.leaving_pods if (at := pod.stuck_at) is not None and at <= self.now]
        return [pod for _, pod in sorted(due, key=lambda each: (each[0], each[1].name))]

    @property
    def next_stuck(self) -> datetime | None:
        """Returns when the next pod counts as stuck."""
        return min(
            (at for pod in self.leaving_pods if (at := pod.stuck_at) is not None and at > self.now), default=None
        )

    @cached_property
    def denied(self) -> frozenset[str]:
        """Returns names of the objects that the operator does not try to delete now, because it was denied a moment
        ago."""
        return frozenset(each.name for each in self.denials if denied_until(each, self.now) > self.now)

    @cached_property
    def protected(self) -> frozenset[str]:
        """Returns names of the pods that the API server denies the operator to delete: nothing else waits for them,
        except for a head that may still commit."""
        oldest = self.now - timedelta(seconds=DENIED_ROW_SECONDS)
        # A denial that was not repeated for minutes is no evidence any more: a webhook may have been fixed meanwhile.
        denials = (each for each in self.denials if (each.kind, each.verb) == ("Pod", "delete"))
        return frozenset(each.name for each in denials if each.at > oldest)

    def find_protected_end(self, head: PodView) -> datetime | None:
        """Returns when a head that may not be deleted counts as ended: as if its grace period had begun with the
        first denial. None for one whose delete was not denied."""
        denials = [each for each in self.denials if each.name == head.name and head.name in self.protected]
        if not denials:
            return None
        # The longest default, of a spec that this operator cannot read.
        grace = GRACE_SECONDS_OF_GPUS
        if not isinstance(self.spec, InvalidSpec):
            grace = self.spec.end_seconds
        # By the API server's clock, but never later than now, which a clock that was set back would give.
        return min(denials[0].began, self.now) + timedelta(seconds=grace + UNANSWERED_SECONDS)

    @cached_property
    def progress(self) -> ProgressStatus:
        """Returns the last report of the current attempt's driver; empty before its first one."""
        progress = self.status.progress
        # The report of the attempt before stays in the status until the new driver's first one arrives.
        if progress.attempt == self.attempt:
            return progress
        return ProgressStatus()

    @property
    def was_head_up(self) -> bool:
        """Returns whether the head ran, by the status or the driver's report: if it is missing now, it was lost."""
        return self.attempt > 0 and (bool(self.status.head.pod) or self.status.progress.attempt == self.attempt)

    @property
    def reported_outcome(self) -> Outcome | None:
        """Returns how the current attempt ended, by its driver's last report."""
        progress = self.progress
        last = self.progress.outcome
        if last is None:
            return None
        return Outcome(
            last.outcome,
            last.reason,
            last.message,
            metrics=progress.metrics,
            reports=progress.reports,
            process_exit_code=last.process_exit_code,
            suspect_pod=last.suspect_pod,
        )

    @property
    def outcome(self) -> Outcome | None:
        """Returns how the current attempt ended: by the head's termination message, or by the driver's last report
        if the head can write no message any more."""
        head = self.head
        # While the head may still write its termination message, that one counts: the last report may be older.
        if head is not None and (head.outcome is not None or head.is_live or head.may_still_end(self.now)):
            return head.outcome
        return self.reported_outcome

    @property
    def has_succeeded(self) -> bool:
        """Returns whether the driver reports success: by exit code 0 with a termination message, or by its last
        report."""
        outcome = self.outcome
        head = self.head
        reported = self.reported_outcome
        if outcome is None or not outcome.has_succeeded:
            return False
        # A termination message alone proves nothing: the driver writes it before its process ends, and the process may
        # still fail.
        return (head is not None and head.exit_code == 0) or (reported is not None and reported.has_succeeded)

    @property
    def has_committed(self) -> bool:
        """Returns whether a checkpoint was committed in the current attempt."""
        return self.status.checkpoint is not None and self.status.checkpoint.attempt == self.attempt

    @property
    def is_attempt_lost(self) -> bool:
        """Returns whether the status already records how the current attempt ended."""
        return self.status.failure is not None and self.status.failure.attempt == self.attempt > 0

    @property
    def is_at_rest(self) -> bool:
        """Returns whether no attempt has begun, or the last one ended by a suspension or an eviction."""
        return self.attempt == 0 or self.status.is_resting

    @property
    def may_choose_gang(self) -> bool:
        """Returns whether an attempt may begin now for which `gangScheduler: Auto` chooses."""
        if isinstance(self.spec, InvalidSpec) or self.spec.gang_scheduler != "Auto" or self.status.is_finished:
            return False
        # Pods of a later attempt than the status names: somebody has set the status back, and an attempt may begin in
        # this pass.
        is_set_back = any(pod.attempt > self.attempt for pod in self.pods)
        return self.is_at_rest or self.is_attempt_lost or is_set_back

    @property
    def is_restart(self) -> bool:
        """Training has run since the job started or resumed."""
        waiting = self.status.waiting
        if waiting is not None:
            return waiting.again
        return self.attempt > 1

    @property
    def is_training(self) -> bool:
        """Returns whether training runs, by the driver's last report in this attempt."""
        return self.progress.state in ("RUNNING", "FINISHED")


def denied_until(denial: Denial, now: datetime) -> datetime:
    """Returns when to try the delete again: after 1, 2, 4, 8, 15, 15 ... s."""
    # Bounded, since the number of tries has no limit, and neither would the shifted integer.
    doublings = min(denial.tries - 1, 10)
    seconds = min(1 << doublings, DENIED_LIMIT_SECONDS)
    # A time ahead of now, from before the clock was corrected, must not delay the retry.
    return min(denial.at, now) + timedelta(seconds=seconds)
