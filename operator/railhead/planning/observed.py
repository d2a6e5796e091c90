"""What one pass has seen of one job, as a frozen value with questions to ask of it.

Made once per pass by `controller/store.py`; `now` is one of its fields. Children of another
job, also of an older one of the same name, are never in it. What needs the spec is asked of `Job`.
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
class Rejection:
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
class AnnouncedCommit:
    """The newest commit that has an event; index -1 = none, `at` None = by an operator before this one."""

    index: int
    at: datetime | None = None


@dataclass(frozen=True)
class Observed:
    """One job and its pods at one moment.

    Attributes:
        spec: the spec, or why it cannot be understood.
        version: resourceVersion of the job.
        led_since: when the operator that plans began to lead; None = no other one led before.
        source: status of the job that spec.resumeFrom.trainJob names, while there is such a job.
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
    announced: AnnouncedCommit | None = None
    led_since: datetime | None = None

    @property
    def attempt(self) -> int:
        return self.status.attempt

    @property
    def pod_uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.pods)

    @property
    def head(self) -> PodView | None:
        """The head of the current attempt; its name tells it from any other."""
        wanted = names.head_name(self.name, self.uid, self.attempt)
        return next((pod for pod in self.pods if pod.role == names.HEAD and pod.name == wanted), None)

    @property
    def acting_pods(self) -> tuple[PodView, ...]:
        """Those that may still do something and are waited for, of whichever attempt."""
        return tuple(pod for pod in self.pods if not pod.is_over and not pod.is_out_of_reach(self.now))

    @property
    def abandoned_pods(self) -> tuple[PodView, ...]:
        """Those that nobody waits for any more."""
        return tuple(pod for pod in self.pods if pod.is_out_of_reach(self.now))

    @property
    def next_out_of_reach(self) -> datetime | None:
        """When that will be so of another pod."""
        times = (pod.out_of_reach_at for pod in self.acting_pods)
        return min((at for at in times if at is not None), default=None)

    @property
    def was_head_up(self) -> bool:
        """The status or the driver says so; a head that is missing now was lost, not merely not created yet."""
        return self.attempt > 0 and (bool(self.status.head.pod) or self.status.progress.attempt == self.attempt)

    @property
    def joined(self) -> int:
        """Worker pods that are part of Ray, by the driver's last report in this attempt."""
        progress = self.status.progress
        return progress.joined if progress.attempt == self.attempt else 0

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
        """By the driver's last report in this attempt."""
        progress = self.status.progress
        return progress.attempt == self.attempt and progress.state in ("RUNNING", "FINISHED")
