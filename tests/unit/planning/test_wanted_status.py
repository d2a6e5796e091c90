"""The write that makes the observed status the wanted one: only what differs, guarded by what it was decided from."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api import conditions as types
from railhead.api.conditions import MAX_CONDITIONS
from railhead.api.status import CountedRestarts, JobStatus, Restarts, WorkersStatus, parse_status, replace_status
from railhead.planning.wanted_status import (
    Requirement,
    StatusWrite,
    WantedStatus,
    build_status_write,
    changes_anything,
    compute_changed_fields,
    make_condition,
    make_guard,
    set_standing_conditions,
)
from tests.unit.builders import RUNNING_STATUS, make_observed

OBSERVED = make_observed(status=RUNNING_STATUS)
STATUS = OBSERVED.status
USUAL = {"/metadata/uid", "/status/attempt", "/status/round", "/status/phase"}
THEIRS = {"type": "example.com/Checked", "status": "True", "reason": "Fine", "lastTransitionTime": "t0"}


def write(status: JobStatus, *requires: Requirement) -> StatusWrite:
    found = build_status_write(OBSERVED, WantedStatus(status, frozenset(requires)))
    assert found is not None
    return found


@pytest.mark.parametrize("name", JobStatus.model_fields)
def test_each_field_of_the_status_is_written_under_its_key_when_it_differs(name: str) -> None:
    key = JobStatus.model_fields[name].alias or name
    new = STATUS.model_copy(update={name: "another value"})
    assert compute_changed_fields(STATUS, new) == {key: "another value"}


def test_equal_fields_are_not_written() -> None:
    same = replace_status(STATUS, workers=WorkersStatus(desired=2, ready=2, joined=2), waiting=None, resize=None)
    assert compute_changed_fields(STATUS, same) == {}


def test_none_removes_a_field_and_an_empty_list_does_not() -> None:
    status = parse_status({**RUNNING_STATUS, "stuckPods": [{"name": "a"}]})
    assert compute_changed_fields(status, replace_status(status, stuck_pods=None)) == {"stuckPods": None}
    assert compute_changed_fields(status, replace_status(status, stuck_pods=[])) == {"stuckPods": []}


@pytest.mark.parametrize(
    "odd", [{"round": "x"}, {"workers": 7}, {"novelty": {"a": 1}}, {"head": {"pod": "p", "gpu": 1}}]
)
def test_what_a_user_or_another_version_has_written_stays_until_a_decision_sets_the_field(odd: dict[str, Any]) -> None:
    observed = make_observed(status={**RUNNING_STATUS, **odd})
    found = build_status_write(observed, WantedStatus(replace_status(observed.status, suspended_seconds=5)))
    assert found is not None and found.fields == {"suspendedSeconds": 5}


def test_without_a_change_only_a_guard_is_compared() -> None:
    assert build_status_write(OBSERVED, None) is None
    assert build_status_write(OBSERVED, WantedStatus(STATUS)) is None
    assert not changes_anything(OBSERVED, WantedStatus(STATUS))
    guard = build_status_write(OBSERVED, make_guard(OBSERVED).requiring(Requirement.SAME_DESIRED_WORKERS))
    assert guard is not None and not guard.fields
    assert guard.tests["/status/workers/desired"] == 2


def test_every_write_but_a_guard_has_the_generation() -> None:
    later = make_observed(status=RUNNING_STATUS, generation=7)
    plain = build_status_write(later, WantedStatus(later.status))
    guard = build_status_write(later, make_guard(later))
    assert plain is not None and plain.fields == {"observedGeneration": 7}
    assert guard is not None and guard.fields == {}


def test_a_write_is_compared_with_what_it_requires() -> None:
    new = replace_status(STATUS, suspended_seconds=5)
    assert write(new).tests.keys() == USUAL and write(new).pods is None
    assert write(new, Requirement.SAME_SPEC).tests.keys() == {*USUAL, "/metadata/generation"}
    fresh = write(new, Requirement.FRESH_PODS)
    assert fresh.tests.keys() == {*USUAL, "/metadata/resourceVersion"} and fresh.pods == OBSERVED.pod_uids


def test_a_counter_is_only_raised_in_the_version_that_it_was_read_from() -> None:
    for new in (
        replace_status(STATUS, restarts=Restarts(application=1)),
        replace_status(STATUS, counted_restarts=CountedRestarts(number=1)),
    ):
        assert "/metadata/resourceVersion" in write(new).tests
    counted = make_observed(status={**RUNNING_STATUS, "countedRestarts": {"number": 1}})
    removal = build_status_write(counted, WantedStatus(replace_status(counted.status, counted_restarts=None)))
    assert removal is not None and "/metadata/resourceVersion" not in removal.tests


def test_conditions_of_other_controllers_stay() -> None:
    observed = make_observed(status={**RUNNING_STATUS, "conditions": [THEIRS]})
    complete = make_condition(observed, types.COMPLETE, reason="Succeeded", message="")
    found = build_status_write(observed, WantedStatus(set_standing_conditions(observed, complete)))
    assert found is not None
    written = {each["type"]: each for each in found.fields["conditions"]}
    assert set(written) == {*types.ALWAYS_PRESENT, THEIRS["type"]} and len(written) <= MAX_CONDITIONS
    assert written[THEIRS["type"]].items() >= THEIRS.items()


def test_a_condition_that_is_removed_and_set_again_keeps_its_time() -> None:
    status = {**RUNNING_STATUS, "conditions": [{**THEIRS, "type": types.RUNNING}]}
    observed = make_observed(status=status)
    again = make_condition(observed, types.RUNNING, reason="Training", message="")
    wanted = WantedStatus(observed.status.without_conditions([types.RUNNING]).with_conditions(again))
    found = build_status_write(observed, wanted)
    assert found is not None
    assert [(each["reason"], each["lastTransitionTime"]) for each in found.fields["conditions"]] == [("Training", "t0")]
