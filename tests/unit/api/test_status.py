"""The status as a value: an invalid part never stops a job; conditions keep their times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api import conditions as c
from railhead.api.conditions import MAX_CONDITIONS, Condition, merge_conditions
from railhead.api.status import JobStatus, parse_status
from railhead.contract.failure import FailureClass

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
fields = [info.alias or name for name, info in JobStatus.model_fields.items()]
statuses = st.dictionaries(st.sampled_from([*fields, "unknown"]), anything, max_size=8)


def make_condition(type_: str, status: Any = "True", time: str = "t1", reason: str = "Any") -> Condition:
    return Condition(type=type_, status=status, reason=reason, last_transition_time=time)


@given(statuses | anything)
def test_any_status_is_parsed(raw: Any) -> None:
    assert isinstance(parse_status(raw), JobStatus)


def test_an_invalid_part_is_dropped_and_the_others_are_kept() -> None:
    status = parse_status({"attempt": 2, "round": "x", "progress": {"metrics": {"loss": 0.5}}, "phase": "Dancing"})
    assert (status.attempt, status.round, status.phase) == (2, 0, "")
    assert status.progress.metrics == {}


def test_fields_of_a_newer_operator_are_dropped() -> None:
    status = parse_status({"attempt": 2, "workers": {"ready": 1, "asleep": 3}, "novelty": True})
    assert (status.attempt, status.workers.ready) == (2, 1)


def test_a_status_survives_a_round_trip() -> None:
    raw = {
        "observedGeneration": 1,
        "phase": "Failed",
        "attempt": 3,
        "restarts": {"application": 1, "withoutProgress": 0},
        "runURI": "s3://bucket/run",
        "checkpoint": {"uri": "s3://bucket/c", "index": 7, "metrics": {"loss": "0.1"}},
        "failure": {"class": "Application", "reason": "Raised", "message": "no", "exitCode": 64},
    }
    status = parse_status(raw)
    assert status.failure is not None and status.failure.class_ == "Application"
    assert parse_status(status.model_dump(by_alias=True, mode="json")) == status


@pytest.mark.parametrize(("type_", "finished"), [("Complete", True), ("Failed", True), ("Running", False)])
def test_a_job_is_finished_by_its_conditions(type_: str, finished: bool) -> None:
    for truth in ("True", "False"):
        status = parse_status({"phase": "Running", "conditions": [make_condition(type_, truth).model_dump()]})
        assert status.is_finished == (finished and truth == "True")


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    old = [make_condition(c.RUNNING, "True", "t1", "Training")]
    same = merge_conditions(old, [make_condition(c.RUNNING, "True", "t2", "Other")])
    assert (same[0].last_transition_time, same[0].reason) == ("t1", "Other")
    changed = merge_conditions(old, [make_condition(c.RUNNING, "False", "t2")])
    assert changed[0].last_transition_time == "t2"


def test_removed_conditions_are_gone_and_the_order_is_fixed() -> None:
    """Generic tools use the first that matches, so the order matters."""
    old = [make_condition(c.RECONCILING), make_condition(c.SUSPENDED)]
    new = [make_condition(c.FAILED), make_condition(c.RUNNING, "False"), make_condition(c.STALLED)]
    merged = merge_conditions(old, new, remove={c.RECONCILING})
    assert [m.type for m in merged] == [c.STALLED, c.RUNNING, c.SUSPENDED, c.FAILED]


def test_foreign_conditions_are_kept_in_order_after_ours_up_to_the_limit() -> None:
    theirs = [make_condition(f"example.com/C{number}") for number in range(40)]
    merged = merge_conditions(theirs, [make_condition(c.RUNNING)])
    assert [m.type for m in merged] == [c.RUNNING, *(m.type for m in theirs[: MAX_CONDITIONS - 1])]
    assert JobStatus(conditions=merged).conditions == merged


def test_a_failure_class_is_parsed_once_and_an_unknown_one_is_infrastructure() -> None:
    known = parse_status({"failure": {"class": "Hang"}}).failure
    later = parse_status({"failure": {"class": "AddedLater", "attempt": 2}}).failure
    assert known is not None and known.class_ is FailureClass.HANG
    assert later is not None and (later.class_, later.attempt) == (FailureClass.INFRASTRUCTURE, 2)
    assert known.model_dump(by_alias=True, mode="json")["class"] == "Hang"
    assert parse_status({"phase": "Running", "failure": {"class": {}}}).phase == "Running"
