"""Status writes: the changed fields only, with the compare that guards them.

The compare names uid, attempt, round and phase. The report endpoint's fields are not in
it, so that progress never makes a decision fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from railhead.api import conditions as c
from railhead.api.conditions import Condition, merge_conditions
from railhead.planning.observed import Observed
from railhead.planning.plan import StatusWrite
from railhead.planning.warnings import find_kind, find_warning


def format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def build_condition(observed: Observed, type_: str, *, reason: str, message: str, status: str = "True") -> Condition:
    return Condition(
        type=type_,
        status="True" if status == "True" else "False",
        reason=reason[:128],
        message=message[:4096],
        observed_generation=observed.generation,
        last_transition_time=format_time(observed.now),
    )


def build_not_running(observed: Observed, type_: str, *, reason: str, message: str) -> list[Condition]:
    """A condition that says why training does not run, and that it does not."""
    return [
        build_condition(observed, type_, reason=reason, message=message),
        build_condition(observed, c.RUNNING, reason=reason, message=message, status="False"),
    ]


def wait_again(observed: Observed) -> dict[str, Any]:
    """The status field `waiting` of a job that trained until now; of one that waits already none."""
    if observed.status.waiting is not None:
        return {}
    return {"waiting": {"since": format_time(observed.now), "again": True}}


def build_operations(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Status fields as operations of a JSON Patch; the value None takes a field away, whether it is there or not."""
    operations: list[dict[str, Any]] = []
    for field, value in fields.items():
        path = f"/status/{field}"
        operations.append({"op": "add", "path": path, "value": {} if value is None else value})
        if value is None:
            operations.append({"op": "remove", "path": path})
    return operations


def look_first(observed: Observed, status: StatusWrite | None) -> StatusWrite | None:
    """The write of who must have seen everything: an attempt ends once and for one cause, and begins beside no other.

    The driver is quiet then, so that its reports do not often make the compare fail.
    """
    if status is None:
        return None
    version = {"/metadata/resourceVersion": str(observed.version)}
    return replace(status, pods=observed.pod_uids, tests={**status.tests, **version})


def _warn(observed: Observed) -> list[Condition]:
    warning = find_warning(observed)
    if warning is None:
        return []
    kind, status = find_kind(warning)
    return [build_condition(observed, kind, reason=warning.reason, message=warning.message, status=status)]


def build_status_write(observed: Observed, conditions: list[Condition], **changes: Any) -> StatusWrite | None:
    """The write that brings the status to this, or None when it is there already.

    `changes` are JSON values by their camelCase status key.
    """
    current = observed.status.model_dump(by_alias=True, mode="json")
    merged = merge_conditions(observed.status.conditions, [*conditions, *_warn(observed)])
    wanted = {
        **changes,
        "observedGeneration": observed.generation,
        "conditions": [c.model_dump(by_alias=True, mode="json") for c in merged],
    }
    fields = {key: value for key, value in wanted.items() if current.get(key) != value}
    return StatusWrite(fields=fields, tests=_tests(observed)) if fields else None


def build_guard(observed: Observed, **tests: Any) -> StatusWrite:
    """Changes nothing, and is refused when the job is not what was seen: before pods are made or removed
    that no write of the status announces, so that an old view makes and removes none.

    `tests` are values of the status by their path, with two underscores for a slash.
    """
    more = {f"/status/{path.replace('__', '/')}": value for path, value in tests.items()}
    return StatusWrite(fields={}, tests={**_tests(observed), **more})


def _tests(observed: Observed) -> dict[str, Any]:
    tests: dict[str, Any] = {
        "/metadata/uid": observed.uid,
        "/status/attempt": observed.status.attempt,
        "/status/round": observed.status.round,
    }
    if observed.status.phase:
        tests["/status/phase"] = observed.status.phase
    return tests
