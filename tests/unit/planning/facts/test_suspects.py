"""Which failures blame a node, and which of them noProgressLimit does not count."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railhead.api.status import parse_status
from railhead.contract.times import format_time
from railhead.planning.facts.settlement import Settlement
from railhead.planning.facts.suspects import is_likely, is_of_new_node, is_sure
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_job, make_spec

FAILED = {
    "class": "Hardware",
    "reason": "GPUFailed",
    "attempt": 1,
    "suspectNode": "node-9",
    "time": format_time(NOW),
}
OLD, LATER = format_time(NOW - timedelta(hours=2)), format_time(NOW)


def node(name: str, *, since: str, times: int) -> dict[str, Any]:
    return {"name": name, "reason": "GPUFailed", "since": since, "times": times}


@pytest.mark.parametrize(
    ("class_", "reason", "sure", "likely"),
    [
        ("Hardware", "GPUFailed", True, False),
        ("Hardware", "ProcessNotEnding", True, False),
        ("Hardware", "GPULost", False, True),
        ("Hardware", "BusError", False, True),
        ("Hardware", "NetworkFailed", False, False),
        ("Hang", "CollectiveTimedOut", False, True),
        ("Application", "GPUFailed", False, False),
    ],
)
def test_a_failure_blames_the_suspects_node_for_sure_likely_or_not(
    class_: str, reason: str, sure: bool, likely: bool
) -> None:
    failure = parse_status({"failure": {**FAILED, "class": class_, "reason": reason}}).failure
    assert failure is not None and (is_sure(failure), is_likely(failure)) == (sure, likely)


@pytest.mark.parametrize(
    ("change", "listed", "former", "is_new"),
    [
        ({}, [], [], True),
        ({"reason": "GPULost"}, [], [], True),
        ({"reason": "NetworkFailed"}, [], [], False),  # the next node may have the same network
        ({"class": "Hang", "reason": "CollectiveTimedOut"}, [], [], False),  # may be the job's fault
        ({"suspectNode": ""}, [], [], False),
        ({}, [node("node-8", since=OLD, times=5)], [], True),
        ({}, [node("node-9", since=LATER, times=1)], [], True),  # because of this failure
        ({}, [node("node-9", since=LATER, times=2)], [], False),  # it has come back
        ({}, [], [node("node-9", since=OLD, times=1)], False),
        ({}, [], [node("node-9", since=OLD, times=0)], True),  # only suspected
    ],
)
def test_broken_hardware_counts_only_on_a_node_that_the_job_has_avoided_before(
    change: dict[str, Any], listed: list[Any], former: list[Any], is_new: bool
) -> None:
    status = {**RUNNING_STATUS, "failure": {**FAILED, **change}}
    status |= {"avoidedNodes": listed, "formerlyAvoidedNodes": former, "restarts": {"withoutProgress": 3}}
    parsed = parse_status(status)
    assert parsed.failure is not None and is_of_new_node(parsed, parsed.failure) == is_new
    for avoidance in ("Auto", "None"):
        job = make_job(make_head(), status=status, spec=make_spec(scheduling={"nodeAvoidance": avoidance}))
        settlement = Settlement(job, parsed.failure, -1)
        assert (settlement.refusal == "") == (is_new and avoidance == "Auto")
        counted = settlement.count(parsed).restarts
        assert counted.without_progress == (3 if is_new and avoidance == "Auto" else 4)
