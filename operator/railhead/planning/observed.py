"""What one pass has seen of one job, as a frozen value with questions to ask of it.

Made once per pass by `controller/observe.py`; `now` is one of its fields. Children of
another job, also of an older one of the same name, are never in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from railhead.api import names
from railhead.api.errors import InvalidSpec
from railhead.api.spec import TrainJobSpec
from railhead.api.status import JobStatus
from railhead.planning.pod_view import PodView, Problem
from railhead.resources.settings import OperatorSettings


@dataclass(frozen=True)
class Refusal:
    """The API server would not have a child of this attempt; remembered until all that is wanted could be made.

    Attributes:
        tries: how often in a row.
        at: the last time.
    """

    problem: Problem
    attempt: int
    tries: int
    at: datetime


@dataclass(frozen=True)
class Announced:
    """The newest commit that an event has told of; index -1 = none, `at` None = by an operator before this one."""

    index: int
    at: datetime | None = None


@dataclass(frozen=True)
class Observed:
    """One job and its pods at one moment."""

    now: datetime
    namespace: str
    name: str
    uid: str
    generation: int
    is_deleting: bool
    spec: TrainJobSpec | None
    error: InvalidSpec | None
    status: JobStatus
    pods: tuple[PodView, ...]
    settings: OperatorSettings
    version: int = 0  # resourceVersion of the job
    source: JobStatus | None = None  # of spec.resumeFrom.trainJob, while there is such a job
    refusal: Refusal | None = None
    announced: Announced | None = None

    @property
    def attempt(self) -> int:
        return self.status.attempt

    @property
    def is_elastic(self) -> bool:
        return self.spec is not None and self.spec.scaling.is_elastic

    @property
    def wanted_workers(self) -> int:
        """Worker pods that the spec asks for now, not Ray Train workers."""
        return self._pods_for(self.spec.scaling.wanted_workers) if self.spec else 0

    @property
    def most_workers(self) -> int:
        """Worker pods that there may be at most; their slots are 0 to this."""
        return self._pods_for(self.spec.scaling.most_workers) if self.spec else 0

    @property
    def least_workers(self) -> int:
        """Worker pods without which there is no training."""
        return self._pods_for(self.spec.scaling.least_workers) if self.spec else 0

    @property
    def desired_workers(self) -> int:
        """Worker pods of the current attempt. An elastic job's follow the spec by `decide_resize`."""
        decided = self.status.workers.desired
        if not self.is_elastic or self.attempt == 0 or decided <= 0:
            return self.wanted_workers
        return min(decided, self.most_workers)

    def _pods_for(self, workers: int) -> int:
        return max(1, workers // self.spec.scaling.workers_per_pod) if self.spec else 0

    @property
    def acting_pods(self) -> tuple[PodView, ...]:
        """Those that may still do something and are waited for, of whichever attempt."""
        return tuple(p for p in self.pods if not p.is_over and not p.is_out_of_reach(self.now))

    @property
    def left_behind(self) -> tuple[PodView, ...]:
        """Those that nobody waits for any more."""
        return tuple(p for p in self.pods if p.is_out_of_reach(self.now))

    @property
    def next_out_of_reach(self) -> datetime | None:
        """When that will be so of another pod."""
        ats = (p.out_of_reach_at for p in self.acting_pods)
        return min((at for at in ats if at is not None), default=None)

    @property
    def pod_uids(self) -> frozenset[str]:
        return frozenset(p.uid for p in self.pods)

    @property
    def head(self) -> PodView | None:
        """The head of the current attempt; its name tells it from any other."""
        wanted = names.head_name(self.name, self.uid, self.attempt)
        return next((p for p in self.pods if p.role == names.HEAD and p.name == wanted), None)

    @property
    def workers(self) -> tuple[PodView, ...]:
        """Worker pods of the current attempt, also lost ones."""
        return tuple(p for p in self.pods if p.role == names.WORKER and p.attempt == self.attempt)

    @property
    def live_workers(self) -> tuple[PodView, ...]:
        return tuple(p for p in self.workers if p.is_live and 0 <= p.slot < self.most_workers)

    @property
    def doubles(self) -> tuple[PodView, ...]:
        """Live worker pods whose slot has a live pod of a later round."""
        newest: dict[int, int] = {}
        for pod in self.live_workers:
            newest[pod.slot] = max(pod.round, newest.get(pod.slot, pod.round))
        return tuple(p for p in self.live_workers if p.round < newest[p.slot])

    @property
    def empty_slots(self) -> tuple[int, ...]:
        """As many free slots as worker pods are missing."""
        taken = {p.slot for p in self.live_workers}
        free = [slot for slot in range(self.most_workers) if slot not in taken]
        return tuple(free[: max(self.desired_workers - len(taken), 0)])

    @property
    def surplus_workers(self) -> tuple[PodView, ...]:
        """Live worker pods beyond those that are desired: first those that do not run."""
        ranked = sorted(self.live_workers, key=lambda p: (not p.is_up, p.slot, p.round))
        return tuple(ranked[self.desired_workers :])

    @property
    def lost_workers(self) -> tuple[PodView, ...]:
        return tuple(p for p in self.workers if not p.is_live)

    @property
    def workers_up(self) -> int:
        return len({p.slot for p in self.live_workers if p.is_up})

    @property
    def are_all_up(self) -> bool:
        return self.head is not None and self.head.is_up and self.workers_up >= self.desired_workers

    @property
    def are_enough_up(self) -> bool:
        """All, or for an elastic job so many that it can train."""
        if not self.is_elastic:
            return self.are_all_up
        return self.head is not None and self.head.is_up and self.workers_up >= self.least_workers

    @property
    def was_head_up(self) -> bool:
        """The status or the driver says so; a head that is missing now was lost, not merely not made yet."""
        return self.attempt > 0 and (bool(self.status.head.pod) or self.status.progress.attempt == self.attempt)

    @property
    def joined(self) -> int:
        """Worker pods that are part of Ray, by the driver's last word in this attempt."""
        progress = self.status.progress
        return progress.joined if progress.attempt == self.attempt else 0

    @property
    def were_all_up(self) -> bool:
        """The status or the driver says so; a pod that is missing now was lost, not merely not made yet.

        The driver's word may be older than a later round, or than a resize.
        """
        is_first_group = self.status.round == 0 and not self.is_elastic
        told = max(self.status.workers.ready, self.joined if is_first_group else 0)
        return self.was_head_up and told >= self.desired_workers

    @property
    def has_committed(self) -> bool:
        """A checkpoint was committed in the current attempt."""
        return self.status.checkpoint is not None and self.status.checkpoint.attempt == self.attempt

    @property
    def is_attempt_lost(self) -> bool:
        """The status already says how the current attempt ended."""
        return self.status.failure is not None and self.status.failure.attempt == self.attempt > 0

    @property
    def is_restart(self) -> bool:
        """Training has run since the job was started or resumed."""
        waiting = self.status.waiting
        return waiting.again if waiting is not None else self.attempt > 1

    @property
    def is_training(self) -> bool:
        return self.status.progress.attempt == self.attempt and self.status.progress.state in (
            "RUNNING",
            "FINISHED",
        )

    @property
    def strays(self) -> tuple[PodView, ...]:
        """Pods of earlier attempts that may still run."""
        return tuple(p for p in self.acting_pods if p.attempt < self.attempt)

    @property
    def not_started(self) -> list[PodView]:
        """Live pods that do not run yet, the head before the workers."""
        own = [*([self.head] if self.head else []), *sorted(self.live_workers, key=lambda p: p.slot)]
        return [pod for pod in own if pod.is_live and not pod.is_running]

    @property
    def startup_problem(self) -> tuple[PodView, Problem] | None:
        """The first pod that cannot start."""
        return next(((pod, pod.problem) for pod in self.not_started if pod.problem is not None), None)
