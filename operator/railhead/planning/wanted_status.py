"""The status that a pass wants, and the write that it becomes: the fields that differ from the observed status, and
the compare-and-set that guards them.

The only place where status fields become JSON. The compare covers uid, attempt, round and phase, but not the report
endpoint's fields: progress makes no decision fail, unless it counts restarts. A new state of the job replaces all its
state conditions (`STANDING`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pydantic import BaseModel

from railhead.api import conditions as types
from railhead.api.conditions import Condition, merge_conditions
from railhead.api.fit import fit_text
from railhead.api.status import JobStatus, Waiting, replace_status
from railhead.contract.times import format_time
from railhead.planning.observed import Observed

# Mutually exclusive, except for those that one decision sets together; warnings are independent of them.
STANDING = frozenset({types.RECONCILING, types.STALLED, types.RUNNING, *types.ALWAYS_PRESENT})


class Requirement(Enum):
    """What must still hold besides uid, attempt, round and phase; otherwise the pass does nothing at all."""

    FRESH_PODS = "the API server has no pod of the job that the view lacks, and the job is unchanged"
    SAME_SPEC = "the spec is unchanged"
    SAME_DESIRED_WORKERS = "the desired number of worker pods is unchanged"


@dataclass(frozen=True)
class WantedStatus:
    """The status that a decision wants, and what it requires.

    Attributes:
        status: the observed status, with the fields and conditions that the decision changes.
        requires: what must still hold besides the usual.
        is_guard: changes nothing, but is still compared: used before pods are created or deleted without a change
            of the status, so that a stale view creates and deletes none.
    """

    status: JobStatus
    requires: frozenset[Requirement] = frozenset()
    is_guard: bool = False

    def requiring(self, *requirements: Requirement) -> WantedStatus:
        return replace(self, requires=self.requires.union(requirements))


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


def make_guard(observed: Observed) -> WantedStatus:
    """Wants the status as it is, and has it compared."""
    return WantedStatus(observed.status, is_guard=True)


def make_condition(observed: Observed, type_: str, *, reason: str, message: str, is_true: bool = True) -> Condition:
    """Makes a condition that is set now; the write keeps the time of one whose status does not change."""
    return Condition(
        type=type_,
        status="True" if is_true else "False",
        reason=fit_text(Condition, "reason", reason),
        message=fit_text(Condition, "message", message),
        observed_generation=observed.generation,
        last_transition_time=format_time(observed.now),
    )


def set_standing_conditions(observed: Observed, *conditions: Condition) -> JobStatus:
    """Returns the job's state now: these conditions, no other of `STANDING`, and the rest of `ALWAYS_PRESENT` as
    False."""
    absent = (
        make_condition(observed, type_, reason=f"Not{type_}", message="", is_true=False)
        for type_ in types.ALWAYS_PRESENT
    )
    chosen = {condition.type for condition in conditions}
    rest = (condition for condition in absent if condition.type not in chosen)
    return observed.status.without_conditions(STANDING).with_conditions(*rest, *conditions)


def set_not_running(observed: Observed, type_: str, *, reason: str, message: str) -> JobStatus:
    """Returns the condition that explains why training does not run, together with Running=False."""
    return set_standing_conditions(
        observed,
        make_condition(observed, type_, reason=reason, message=message),
        make_condition(observed, types.RUNNING, reason=reason, message=message, is_true=False),
    )


def await_again(observed: Observed, status: JobStatus) -> JobStatus:
    """Adds that the job waits for training again since now; a job that already waits keeps its start time."""
    # The start time bounds spec.restartDeadlineSeconds. A job that loses a second pod while it waits must not get the
    # time again.
    if observed.status.waiting is not None:
        return status
    return replace_status(status, waiting=Waiting(since=format_time(observed.now), again=True))


def changes_anything(observed: Observed, wanted: WantedStatus) -> bool:
    """Returns whether the wanted status differs from the observed one, observedGeneration included."""
    return bool(_compute_fields(observed, wanted))


def build_status_write(observed: Observed, wanted: WantedStatus | None) -> StatusWrite | None:
    """Returns the write that makes the status the wanted one, or None if it is already."""
    if wanted is None:
        return None
    # A guard has the compare made by the API server without any change, so it costs a request and no write to etcd.
    fields = {} if wanted.is_guard else _compute_fields(observed, wanted)
    if not fields and not wanted.is_guard:
        return None
    must_be_fresh = Requirement.FRESH_PODS in wanted.requires
    return StatusWrite(
        fields=fields, tests=_build_tests(observed, wanted), pods=observed.pod_uids if must_be_fresh else None
    )


def compute_changed_fields(old: JobStatus, new: JobStatus) -> dict[str, Any]:
    """Returns the fields in which the statuses differ: by key, the new value as JSON; None removes the field.

    All other fields stay as they are stored, with whatever this version does not know of them.
    """
    fields: dict[str, Any] = {}
    for name, field in JobStatus.model_fields.items():
        before = getattr(old, name)
        after = getattr(new, name)
        # Most fields are the very same object as before, so the identity spares comparing large lists.
        if after is not before and after != before:
            fields[field.alias or name] = to_json(after)
    return fields


def _compute_fields(observed: Observed, wanted: WantedStatus) -> dict[str, Any]:
    old = observed.status
    new = wanted.status
    # A condition that the decision has dropped must be removed by name: merging alone would keep the old one.
    gone = {condition.type for condition in old.conditions}.difference(each.type for each in new.conditions)
    new = replace_status(
        new,
        conditions=merge_conditions(old.conditions, new.conditions, remove=gone),
        observed_generation=observed.generation,
    )
    return compute_changed_fields(old, new)


def _build_tests(observed: Observed, wanted: WantedStatus) -> dict[str, Any]:
    status = observed.status
    tests: dict[str, Any] = {
        "/metadata/uid": observed.uid,
        # These three change whenever another operator begins an attempt or a round, or another job gets the name.
        "/status/attempt": status.attempt,
        "/status/round": status.round,
    }
    # The phase tells what changes neither attempt nor round, such as a suspension or the end of the job.
    if status.phase:
        tests["/status/phase"] = status.phase
    else:
        # No test holds for a field that is missing; the first write of a status sets both.
        tests["/status/observedGeneration"] = status.observed_generation
    if status.run is not None and status.run.uid:
        # A restore may have replaced the status meanwhile.
        tests["/status/run/uid"] = status.run.uid
    if Requirement.FRESH_PODS in wanted.requires or _changes_counters(status, wanted.status):
        # Counters are set from their old values. The driver is quiet then: its reports rarely make the compare fail.
        tests["/metadata/resourceVersion"] = str(observed.version)
    if Requirement.SAME_SPEC in wanted.requires:
        tests["/metadata/generation"] = observed.generation
    if Requirement.SAME_DESIRED_WORKERS in wanted.requires:
        tests["/status/workers/desired"] = status.workers.desired
    return tests


def _changes_counters(old: JobStatus, new: JobStatus) -> bool:
    """Returns whether a counter gets another value; one that is removed depends on no old value."""
    before = (old.restarts, old.counted_restarts, old.worker_losses)
    after = (new.restarts, new.counted_restarts, new.worker_losses)
    return any(value is not None and value != known for value, known in zip(after, before, strict=True))


def to_json(value: BaseModel | Sequence[BaseModel] | str | int | None) -> Any:
    """Returns the value of a status field as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(value, list):
        return [to_json(each) for each in value]
    return value
