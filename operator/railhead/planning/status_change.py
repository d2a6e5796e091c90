"""What a pass changes in a job's status, as a typed value. `status_write` turns it into a patch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Final

from railhead.api.attempts import Attempt
from railhead.api.conditions import Condition
from railhead.api.status import (
    AvoidedNode,
    Budget,
    CheckpointStatus,
    CountedRestarts,
    Disruptions,
    FailureStatus,
    HeadStatus,
    InitialCheckpoint,
    Phase,
    ProgressStatus,
    Resize,
    Restarts,
    ResumedFromStatus,
    StartLine,
    StuckPod,
    Waiting,
    WorkerLosses,
    WorkersStatus,
)


class Unset(Enum):
    """Marks a field that a change leaves as it is."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class Requirement(Enum):
    """What must still hold besides uid, attempt, round and phase; otherwise the pass does nothing at all."""

    FRESH_PODS = "the API server has no pod of the job that the view lacks, and the job is unchanged"
    SAME_SPEC = "the spec is unchanged"
    SAME_DESIRED_WORKERS = "the desired number of worker pods is unchanged"


@dataclass(frozen=True)
class StatusChange:
    """Fields of `JobStatus` to set; `UNSET` keeps a field, None removes it.

    Attributes:
        set_conditions: each replaces the one of its type.
        remove_conditions: types of conditions to remove. All others stay, including those of other controllers.
        requires: what must still hold besides the usual.
        is_guard: changes nothing, but is still compared: used before pods are created or deleted without a change
            of the status, so that a stale view creates and deletes none.
    """

    phase: Phase | Unset = UNSET
    attempt: int | Unset = UNSET
    round: int | Unset = UNSET
    driver: str | Unset = UNSET
    input: str | Unset = UNSET
    source: str | Unset = UNSET
    secret: str | Unset = UNSET
    worker_losses: WorkerLosses | Unset | None = UNSET
    restarts: Restarts | Unset = UNSET
    budget: Budget | Unset | None = UNSET
    counted_restarts: CountedRestarts | Unset | None = UNSET
    disruptions: Disruptions | Unset | None = UNSET
    start_time: str | Unset = UNSET
    suspended_seconds: int | Unset = UNSET
    waiting: Waiting | Unset | None = UNSET
    start_line: StartLine | Unset | None = UNSET
    completion_time: str | Unset = UNSET
    clean_up_time: str | Unset = UNSET
    head: HeadStatus | Unset = UNSET
    workers: WorkersStatus | Unset = UNSET
    resize: Resize | Unset | None = UNSET
    progress: ProgressStatus | Unset = UNSET
    checkpoint: CheckpointStatus | Unset = UNSET
    best_checkpoint: CheckpointStatus | Unset | None = UNSET
    run_uri: str | Unset = UNSET
    resumed_from: ResumedFromStatus | Unset = UNSET
    initial_checkpoint: InitialCheckpoint | Unset = UNSET
    failure: FailureStatus | Unset = UNSET
    attempts: list[Attempt] | Unset | None = UNSET
    stuck_pods: list[StuckPod] | Unset | None = UNSET
    avoided_nodes: list[AvoidedNode] | Unset | None = UNSET
    formerly_avoided_nodes: list[AvoidedNode] | Unset | None = UNSET
    set_conditions: tuple[Condition, ...] = ()
    remove_conditions: frozenset[str] = frozenset()
    requires: frozenset[Requirement] = frozenset()
    is_guard: bool = False

    def requiring(self, *requirements: Requirement) -> StatusChange:
        return replace(self, requires=self.requires.union(requirements))

    def with_conditions(self, *conditions: Condition) -> StatusChange:
        """These replace the ones of their types."""
        types = {condition.type for condition in conditions}
        kept = tuple(condition for condition in self.set_conditions if condition.type not in types)
        return replace(self, set_conditions=(*kept, *conditions), remove_conditions=self.remove_conditions - types)

    def without_conditions(self, types: Iterable[str]) -> StatusChange:
        gone = frozenset(types)
        kept = tuple(condition for condition in self.set_conditions if condition.type not in gone)
        return replace(self, set_conditions=kept, remove_conditions=self.remove_conditions | gone)


NOT_FIELDS = frozenset({"set_conditions", "remove_conditions", "requires", "is_guard"})
STATUS_FIELDS = tuple(field.name for field in fields(StatusChange) if field.name not in NOT_FIELDS)
GUARD = StatusChange(is_guard=True)
