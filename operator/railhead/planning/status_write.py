"""Turns a status change into a write: the fields that actually change, and the compare-and-set that guards them.

The only place where status fields become JSON. The compare covers uid, attempt, round and
phase, but not the report endpoint's fields: progress makes no decision fail, unless it counts restarts.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from railhead.api.conditions import merge_conditions
from railhead.api.status import JobStatus
from railhead.planning.observed import Observed
from railhead.planning.plan import StatusWrite
from railhead.planning.status_change import STATUS_FIELDS, UNSET, Requirement, StatusChange


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
            fields[_key(name)] = _to_json(value)
    return fields


def _changed(observed: Observed, change: StatusChange) -> dict[str, Any]:
    status = observed.status
    fields = build_fields(status, change)
    conditions = merge_conditions(status.conditions, change.set_conditions, remove=change.remove_conditions)
    if conditions != status.conditions:
        fields["conditions"] = [_to_json(condition) for condition in conditions]
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
    if Requirement.FRESH_PODS in change.requires or change.restarts is not UNSET:
        # Counters are set from their old values. The driver is quiet then: its reports rarely make the compare fail.
        tests["/metadata/resourceVersion"] = str(observed.version)
    if Requirement.SAME_SPEC in change.requires:
        tests["/metadata/generation"] = observed.generation
    if Requirement.SAME_DESIRED_WORKERS in change.requires:
        tests["/status/workers/desired"] = status.workers.desired
    return tests


def _key(name: str) -> str:
    return JobStatus.model_fields[name].alias or name


def _to_json(value: BaseModel | list[BaseModel] | str | int | None) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(value, list):
        return [_to_json(each) for each in value]
    return value
