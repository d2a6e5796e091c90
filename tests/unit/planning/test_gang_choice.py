"""gangScheduler Auto: an attempt has Kubernetes' own PodGroup if the API server serves it when the attempt begins, and
all pods of an attempt join a group or none of them does, whatever becomes of the API server meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railhead.api.parsed_spec import InvalidSpec
from railhead.contract.times import format_time
from railhead.planning.observed import Rejection
from railhead.planning.plan import Create, Plan
from railhead.planning.pod_view import PodView, Problem
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_observed, make_spec, make_worker
from tests.unit.planning.state import decide

AUTO = make_spec(scheduling={"gangScheduler": "Auto"})
LOST = {"phase": "Restarting", "failure": {"class": "Infrastructure", "attempt": 1, "time": "2026-01-01T11:00:00Z"}}
FAILED = {"type": "Failed", "status": "True", "reason": "Infrastructure"}
KINDS = ("None", "PodGroup")
OTHER = {"None": "PodGroup", "PodGroup": "None"}


def find_gang(wanted: Plan) -> str:
    """Which kind of gang the created pods join; all of them the same."""
    pods = [each.build() for each in wanted.creates if isinstance(each, Create) and each.kind == "Pod"]
    [joins] = {"schedulingGroup" in pod["spec"] for pod in pods}
    assert joins == any(each.kind == "PodGroup" for each in wanted.creates), "a group without its pods, or the reverse"
    return "PodGroup" if joins else "None"


def decide_auto(*pods: PodView, serves: str, **changes: Any) -> Plan:
    return decide(*pods, spec=AUTO, serves_pod_groups=serves == "PodGroup", **changes)


def fields_of(wanted: Plan) -> dict[str, Any]:
    assert wanted.status is not None
    return dict(wanted.status.fields)


@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_has_the_gang_that_the_api_server_serves_and_says_so_if_it_has_none(kind: str) -> None:
    wanted = decide_auto(serves=kind)
    assert (fields_of(wanted)["gangScheduler"], find_gang(wanted)) == (kind, kind)
    [reconciling] = [each for each in fields_of(wanted)["conditions"] if each["type"] == "Reconciling"]
    assert ("each scheduled by itself" in reconciling["message"]) == (kind == "None")


@pytest.mark.parametrize("kind", KINDS)
def test_a_replacement_joins_what_its_attempt_has_although_the_api_server_has_changed(kind: str) -> None:
    status = {**RUNNING_STATUS, "gangScheduler": kind}
    pods = (make_head(), make_worker(0), make_worker(1, is_deleting=True))
    wanted = decide_auto(*pods, serves=OTHER[kind], status=status)
    assert find_gang(wanted) == kind
    assert "gangScheduler" not in fields_of(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_attempt_chooses_again_and_the_group_of_the_last_one_goes(kind: str) -> None:
    wanted = decide_auto(serves=OTHER[kind], status={**RUNNING_STATUS, **LOST, "gangScheduler": kind})
    assert (fields_of(wanted)["gangScheduler"], find_gang(wanted)) == (OTHER[kind], OTHER[kind])
    assert any(each.kind == "PodGroup" for each in wanted.forgotten) == (kind == "PodGroup")


def test_pods_that_wait_for_a_group_that_is_served_no_more_are_released() -> None:
    problem = Problem("SchedulerMissing", "PodGroup was rejected")
    long_ago = NOW - timedelta(hours=3)
    rejection = Rejection(problem, 1, tries=9, at=NOW, since=long_ago)
    waiting = {"since": format_time(long_ago), "again": True}
    status = {**RUNNING_STATUS, "gangScheduler": "PodGroup", "round": 1, "phase": "Restarting", "waiting": waiting}
    pods = (make_head(created_at=long_ago), make_worker(0, created_at=long_ago))
    wanted = decide_auto(*pods, serves="None", status=status, rejection=rejection)
    assert fields_of(wanted)["failure"]["reason"] == "SchedulerMissing"
    assert len(wanted.deletes) == 2


@pytest.mark.parametrize("scheduler", ["None", "PodGroup", "Volcano"])
def test_a_named_scheduler_is_no_choice(scheduler: str) -> None:
    spec = make_spec(scheduling={"gangScheduler": scheduler})
    status = {**RUNNING_STATUS, "phase": "Suspended", "gangScheduler": "PodGroup"}
    wanted = decide(spec=spec, status=status, serves_pod_groups=True)
    assert fields_of(wanted)["gangScheduler"] is None, "of an earlier attempt with Auto"
    assert any(each.kind == "PodGroup" for each in wanted.creates) == (scheduler != "None")


@pytest.mark.parametrize(
    ("pods", "changes", "may"),
    [
        ((), {}, True),
        ((), {"status": {**RUNNING_STATUS, "phase": "Queued"}}, True),
        ((), {"status": {**RUNNING_STATUS, **LOST}}, True),
        ((make_head(2),), {"status": RUNNING_STATUS}, True),
        ((make_head(),), {"status": RUNNING_STATUS}, False),
        ((), {"status": {**RUNNING_STATUS, **LOST, "conditions": [FAILED]}}, False),
        ((), {"spec": make_spec()}, False),
        ((), {"spec": InvalidSpec("image", "is required")}, False),
    ],
    ids=["first", "queued", "lost", "set back", "running", "failed", "another scheduler", "invalid"],
)
def test_the_api_server_is_asked_only_if_an_attempt_may_begin(
    pods: tuple[PodView, ...], changes: dict[str, Any], may: bool
) -> None:
    assert make_observed(*pods, **{"spec": AUTO, **changes}).may_choose_gang is may
