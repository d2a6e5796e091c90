"""What a pass changes in a job's status, as a typed value, and the write that it becomes: the fields that actually
change, and the compare-and-set that guards them.

The only place where status fields become JSON. The compare covers uid, attempt, round and phase, but not the report
endpoint's fields: progress makes no decision fail, unless it counts restarts. A new state of the job replaces all its
state conditions (`STANDING`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from railhead.api import conditions as types
from railhead.api.attempts import Attempt
from railhead.api.conditions import Condition, merge_conditions
from railhead.api.goodput import GoodputStatus
from railhead.api.queue import AdmissionStatus
from railhead.api.run_status import RunStatus
from railhead.api.scheduling import ChosenGang
from railhead.api.status import (
    AvoidedNode,
    Budget,
    CheckpointStatus,
    CountedRestarts,
    FailureStatus,
    HeadStatus,
    InitialCheckpoint,
    JobStatus,
    Phase,
    ProgressStatus,
    Resize,
    Restarts,
    ResumedFromStatus,
    StuckPod,
    Waiting,
    WorkerLosses,
    WorkersStatus,
)
from railhead.contract.times import format_time
from railhead.planning.observed import Observed


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
    run: RunStatus | Unset = UNSET
    attempt: int | Unset = UNSET
    round: int | Unset = UNSET
    driver: str | Unset = UNSET
    input: str | Unset = UNSET
    source: str | Unset = UNSET
    secret: str | Unset = UNSET
    admission: AdmissionStatus | Unset | None = UNSET
    gang_scheduler: ChosenGang | Unset | None = UNSET
    worker_losses: WorkerLosses | Unset | None = UNSET
    restarts: Restarts | Unset = UNSET
    budget: Budget | Unset | None = UNSET
    counted_restarts: CountedRestarts | Unset | None = UNSET
    start_time: str | Unset = UNSET
    suspended_seconds: int | Unset = UNSET
    waiting: Waiting | Unset | None = UNSET
    completion_time: str | Unset = UNSET
    goodput: GoodputStatus | Unset = UNSET
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

    def apply(self, status: JobStatus) -> JobStatus:
        """Returns the status as the change leaves it, but for its conditions."""
        values = {name: value for name, value in vars(self).items() if value is not UNSET and name not in NOT_FIELDS}
        if values:
            return status.model_copy(update=values)
        return status

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


@dataclass(frozen=True)
class StatusWrite:
    """Status fields to set, and what must still hold for the object.

    Attributes:
        fields: top-level status key -> JSON value; None removes the key.
        tests: JSON pointer -> value that the object must have (compare-and-set).
        pods: uids of the job's pods in the view, when the write depends on which pods exist: the API server must
            have no others. None = not checked.
    """

    fields: Mapping[str, Any]
    tests: Mapping[str, Any]
    pods: frozenset[str] | None = None


NOT_FIELDS = frozenset({"set_conditions", "remove_conditions", "requires", "is_guard"})
STATUS_FIELDS = tuple(field.name for field in fields(StatusChange) if field.name not in NOT_FIELDS)
GUARD = StatusChange(is_guard=True)


# Mutually exclusive, except for those that one decision sets together; warnings are independent of them.
STANDING = frozenset({types.RECONCILING, types.STALLED, types.RUNNING, *types.ALWAYS_PRESENT})


def make_condition(observed: Observed, type_: str, *, reason: str, message: str, is_true: bool = True) -> Condition:
    return Condition(
        type=type_,
        status="True" if is_true else "False",
        reason=reason[:128],
        message=message[:4096],
        observed_generation=observed.generation,
        last_transition_time=format_time(observed.now),
    )


def set_standing_conditions(observed: Observed, *conditions: Condition) -> StatusChange:
    """The job's state now: these conditions, no other of `STANDING`, and the rest of `ALWAYS_PRESENT` as False."""
    absent = (
        make_condition(observed, type_, reason=f"Not{type_}", message="", is_true=False)
        for type_ in types.ALWAYS_PRESENT
    )
    chosen = {condition.type for condition in conditions}
    kept = (condition for condition in absent if condition.type not in chosen)
    gone = STANDING.difference(chosen, types.ALWAYS_PRESENT)
    return StatusChange(set_conditions=(*kept, *conditions), remove_conditions=gone)


def set_not_running(observed: Observed, type_: str, *, reason: str, message: str) -> StatusChange:
    """The condition that explains why training does not run, together with Running=False."""
    return set_standing_conditions(
        observed,
        make_condition(observed, type_, reason=reason, message=message),
        make_condition(observed, types.RUNNING, reason=reason, message=message, is_true=False),
    )


def await_again(observed: Observed, change: StatusChange) -> StatusChange:
    """Adds that the job waits for training again since now; a job that already waits keeps its start time."""
    if observed.status.waiting is not None:
        return change
    return replace(change, waiting=Waiting(since=format_time(observed.now), again=True))


def changes_anything(observed: Observed, change: StatusChange) -> bool:
    """Whether the change alters the status, observedGeneration included."""
    return bool(_changed(observed, change))


def build_status_write(observed: Observed, change: StatusChange | None) -> StatusWrite | None:
    """The write for the change, or None if the status already has it."""
    if change is None:
        return None
    fields = {} if change.is_guard else _changed(observed, change)
    if not fields and not change.is_guard:
        return None
    must_be_fresh = Requirement.FRESH_PODS in change.requires
    return StatusWrite(
        fields=fields, tests=_build_tests(observed, change), pods=observed.pod_uids if must_be_fresh else None
    )


def build_fields(status: JobStatus, change: StatusChange) -> dict[str, Any]:
    """The fields that the change alters, by their key in the status, as JSON; without conditions."""
    fields: dict[str, Any] = {}
    for name in STATUS_FIELDS:
        value = getattr(change, name)
        if value is not UNSET and value != getattr(status, name):
            fields[JobStatus.model_fields[name].alias or name] = to_json(value)
    return fields


def _changed(observed: Observed, change: StatusChange) -> dict[str, Any]:
    status = observed.status
    fields = build_fields(status, change)
    conditions = merge_conditions(status.conditions, change.set_conditions, remove=change.remove_conditions)
    if conditions != status.conditions:
        fields["conditions"] = to_json(conditions)
    if status.observed_generation != observed.generation:
        fields["observedGeneration"] = observed.generation
    return fields


def _build_tests(observed: Observed, change: StatusChange) -> dict[str, Any]:
    status = observed.status
    tests: dict[str, Any] = {
        "/metadata/uid": observed.uid,
        "/status/attempt": status.attempt,
        "/status/round": status.round,
    }
    if status.phase:
        tests["/status/phase"] = status.phase
    else:  # no test holds for a field that is missing; the first write of a status sets both
        tests["/status/observedGeneration"] = status.observed_generation
    if status.run is not None and status.run.uid:
        tests["/status/run/uid"] = status.run.uid  # a restore may have replaced the status meanwhile
    counters = (change.restarts, change.counted_restarts, change.worker_losses)
    if Requirement.FRESH_PODS in change.requires or any(isinstance(each, BaseModel) for each in counters):
        # Counters are set from their old values. The driver is quiet then: its reports rarely make the compare fail.
        tests["/metadata/resourceVersion"] = str(observed.version)
    if Requirement.SAME_SPEC in change.requires:
        tests["/metadata/generation"] = observed.generation
    if Requirement.SAME_DESIRED_WORKERS in change.requires:
        tests["/status/workers/desired"] = status.workers.desired
    return tests


def to_json(value: BaseModel | Sequence[BaseModel] | str | int | None) -> Any:
    """Returns the value of a status field as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(value, list):
        return [to_json(each) for each in value]
    return value
