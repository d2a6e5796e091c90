"""The facts about one pod, as a frozen value with queries, and the worker pods of the current attempt, partitioned once
per pass. `controller/observe.py` builds the pods. Each worker pod is in exactly one set:

| set | which pods |
|---|---|
| live | neither terminated nor being deleted, in a slot of the job; of several in a slot, the one that may train |
| duplicates | another pod has the slot: one of two operators had a stale view, a delete was denied, or one answers |
| lost | terminated, being deleted, or out of the driver's reach |
| out_of_range | like live, but in a slot that the job does not have |

Pods of other attempts and heads are in no set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from railhead.api import names
from railhead.contract.outcome import Outcome

ENDED_WITHIN = timedelta(seconds=5)  # from the end of the grace period until every watch has seen the pod deleted
UNANSWERED_SECONDS = 30  # beyond the grace period
SILENT_GRACE_SECONDS = 75  # of a grace period, where a silent kubelet cannot pass on that there is one
STUCK_SECONDS = 300  # beyond the grace period
OVER = frozenset({"Succeeded", "Failed"})  # phases in which all containers have terminated


@dataclass(frozen=True)
class Problem:
    """Why a pod does not start, or is taken: a CamelCase reason, and the message of the component that does it."""

    reason: str
    message: str


@dataclass(frozen=True)
class PodEvents:
    """What a pod's events report.

    Attributes:
        problem: why it does not start; None if they name nothing.
        at: when they were read.
        node_added_at: when an autoscaler last began to add a node for it.
    """

    problem: Problem | None
    at: datetime
    node_added_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """The facts about one pod that decisions use.

    It has slots because one is kept of each pod: beyond 30 attributes, an object's dict takes five times the memory.

    Attributes:
        outcome: what the message says, if the driver has written it.
    """

    name: str
    uid: str
    role: str
    attempt: int
    slot: int = -1
    round: int = 0
    phase: str = "Pending"
    is_running: bool = False
    is_deleting: bool = False
    node: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None  # of the running container
    finished_at: datetime | None = None
    problem: Problem | None = None
    disruption: Problem | None = None  # who takes it, and why: its condition DisruptionTarget
    container: str = names.CONTAINER  # the one that the exit code and message belong to
    created_at: datetime | None = None
    scheduled_at: datetime | None = None
    events_read_at: datetime | None = None  # when its events were last read
    node_added_at: datetime | None = None  # by its events: when an autoscaler last began to add a node for it
    deletion_timestamp: datetime | None = None  # of a pod being deleted: the end of its grace period
    grace_seconds: int = 0  # of a pod being deleted
    finalizer: str = ""  # the first one of a pod being deleted, which keeps the object
    is_silent: bool = False  # by Kubernetes' word its node does not respond
    avoids: tuple[str, ...] = ()  # nodes that it may not run on, because the job avoided them when it was created
    cpu_limit: str = ""  # of the ray container
    is_refused: bool = False  # by its node: it has failed, and our container never ran
    has_begun: bool = False  # the ray container has started, or an init container runs
    outcome: Outcome | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        outcome = None
        if self.message:
            outcome = Outcome.from_json(self.message)
        object.__setattr__(self, "outcome", outcome)

    @property
    def is_over(self) -> bool:
        """Returns whether all its containers have terminated: the pod can no longer act."""
        return self.phase in OVER

    @property
    def has_ended(self) -> bool:
        """Our own container has terminated. The phase follows a second later, or not at all while a sidecar runs."""
        return self.is_over or self.exit_code is not None

    def explain(self, events: PodEvents | None) -> PodView:
        """Adds the problem that its events name, if it does not run and its status names none."""
        if events is None:
            return self
        # The status is current, and Events are read now and then: an Event explains only what the status does not.
        problem = self.problem or (None if self.is_running else events.problem)
        return replace(self, events_read_at=events.at, problem=problem, node_added_at=events.node_added_at)

    @property
    def place(self) -> str:
        return f"{self.name} on node {self.node or '(none)'}"

    @property
    def is_live(self) -> bool:
        return self.exit_code is None and not self.is_deleting and self.phase not in OVER

    @property
    def is_up(self) -> bool:
        return self.is_live and self.is_running

    @property
    def gone_by(self) -> datetime | None:
        """Returns when a pod being deleted should be gone: at the end of its grace period, plus a margin. A long
        grace period is for a last checkpoint, which a node that does not respond is not likely to finish."""
        # deletionTimestamp is the end of the grace period, not its beginning, so a waived part is subtracted from it.
        waived = max(self.grace_seconds - SILENT_GRACE_SECONDS, 0) if self.is_silent else 0
        return self.deletion_timestamp and self.deletion_timestamp - timedelta(seconds=waived) + ENDED_WITHIN

    def may_still_end(self, now: datetime) -> bool:
        """Returns whether it is being deleted and within its grace period: a driver may still commit a checkpoint."""
        return self.is_deleting and not self.has_ended and self.gone_by is not None and now < self.gone_by

    @property
    def out_of_reach_at(self) -> datetime | None:
        """Returns when the job stops waiting for it: being deleted, and not gone well after its grace period, since
        its node does not respond. A head may still run there; the fence in the run's storage blocks its commits."""
        if not self.is_deleting or self.is_over or self.gone_by is None:
            return None
        return self.gone_by + timedelta(seconds=UNANSWERED_SECONDS)

    def may_act(self, now: datetime) -> bool:
        """Returns whether a container of it may still run: the job waits for it, and it holds the job's quota."""
        # A pod that nobody has deleted may act for as long as it exists, whatever its node does.
        at = self.out_of_reach_at if self.is_deleting else None
        return self.phase not in OVER and (at is None or now < at)

    @property
    def is_kept_by_finalizer(self) -> bool:
        """Being deleted, and only its object is left: no kubelet has it, or all its containers have terminated."""
        return self.is_deleting and bool(self.finalizer) and (self.is_over or not self.node)

    @property
    def stuck_at(self) -> datetime | None:
        """Returns when it counts as stuck: it should be gone for minutes, and somebody has to look at its node."""
        return self.deletion_timestamp and self.deletion_timestamp + timedelta(seconds=STUCK_SECONDS)

    @property
    def last_words(self) -> str:
        """Returns why it is gone, in brief: the cluster's reason, else its exit code and last line."""
        if self.is_live:
            return f"it does not answer the driver; node {self.node or '(none)'}"
        if self.disruption is not None or self.reason:
            if self.disruption:
                return self.disruption.reason
            return self.reason
        lines = self.outcome.message if self.outcome else self.message
        code = f"exit code {self.exit_code}" if self.exit_code is not None else self.phase
        last = next((line.strip() for line in reversed(lines.splitlines()) if line.strip()), "")
        if last:
            return f"{code}: {last[:300]}"
        return code


@dataclass(frozen=True)
class WorkerPods:
    """The sets; `live` is ordered by slot.

    Attributes:
        free_slots: slots without a live pod, in order.
    """

    live: tuple[PodView, ...]
    duplicates: tuple[PodView, ...]
    lost: tuple[PodView, ...]
    out_of_range: tuple[PodView, ...]
    free_slots: tuple[int, ...]

    @staticmethod
    def of(pods: Iterable[PodView], *, attempt: int, slots: int, unreachable: Collection[str] = ()) -> WorkerPods:
        """Divides the worker pods of an attempt into sets. `slots`: the maximum number of slots of the job;
        `unreachable`: names of pods that the driver has lost."""
        chosen: dict[int, PodView] = {}
        duplicates = []
        lost = []
        out_of_range = []
        silent = []
        for pod in pods:
            if pod.role != names.WORKER or pod.attempt != attempt:
                continue
            if not pod.is_live:
                lost.append(pod)
            # Put aside until all pods are seen: it is a duplicate only if another pod has its slot.
            elif pod.name in unreachable:
                silent.append(pod)
            elif not 0 <= pod.slot < slots:
                out_of_range.append(pod)
            elif (other := chosen.setdefault(pod.slot, pod)) is not pod:
                # Without a rule that both passes share, each pass could delete the pod that the other one has kept.
                duplicate, kept = sorted((other, pod), key=_rank)
                chosen[pod.slot] = kept
                duplicates.append(duplicate)
        for pod in silent:
            # The group trains without it already. As lost it would begin a round; as a duplicate it is just deleted.
            (duplicates if pod.slot in chosen else lost).append(pod)
        return WorkerPods(
            live=tuple(chosen[slot] for slot in sorted(chosen)),
            duplicates=tuple(duplicates),
            lost=tuple(lost),
            out_of_range=tuple(out_of_range),
            free_slots=tuple(slot for slot in range(slots) if slot not in chosen),
        )


def _rank(pod: PodView) -> tuple[bool, float, int]:
    """Ranks the live pods of one slot, of which the highest keeps it.

    A pod that runs is worth more than one that does not. Of two that run, the group trains on the one that started
    first. Of two that do not, only the one of the latest round avoids the right nodes.
    """
    started = 0.0
    if pod.is_running and pod.started_at is not None:
        started = pod.started_at.timestamp()
    return pod.is_running, -started, pod.round
