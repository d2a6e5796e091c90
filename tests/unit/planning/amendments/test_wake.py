"""Pods that do not run and give no reason: their events are looked up, with backoff, and reported."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from railhead.controller.events import find_problem
from railhead.planning.plan import Plan
from railhead.planning.pod_view import PodEvents, PodView, Problem
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_spec, make_worker
from tests.unit.planning.state import decide

PENDING = {"observedGeneration": 1, "phase": "Pending", "attempt": 1, "round": 0}
MOUNT = Problem("FailedMount", 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found')


def creating(pod: PodView, *, age: float, looked_up: float | None = None, problem: Problem | None = None) -> PodView:
    """A pod on a node without a reason for that many seconds, whose events were last looked up at that age."""
    began = NOW - timedelta(seconds=age)
    pod = replace(pod, phase="Pending", is_running=False, created_at=began)
    return pod if looked_up is None else pod.explain(PodEvents(problem, began + timedelta(seconds=looked_up)))


def decide_pending(*pods: PodView, status: dict[str, Any] = PENDING, **spec: Any) -> Plan:
    return decide(*pods, status=status, spec=make_spec(**spec))


def wait_of(decided: Plan) -> float | None:
    return (decided.wake_at - NOW).total_seconds() if decided.wake_at else None


@pytest.mark.parametrize(
    ("age", "looked_up", "wait"),
    [
        (0, None, 15),
        (14, None, 1),
        (15, None, None),
        (16, 15, 14),
        (30, 15, None),
        (31, 30, 29),
        (400, 300, 200),
        (4000, 3900, 200),
    ],
)
def test_events_are_looked_up_after_a_while_with_backoff(age: float, looked_up: float | None, wait: float) -> None:
    head = creating(make_head(), age=age, looked_up=looked_up)
    decided = decide_pending(head, make_worker(0), make_worker(1))
    assert wait_of(decided) == wait
    assert decided.look_up_events_of == (head if wait is None else None)


def test_events_of_one_pod_are_looked_up_at_a_time_the_heads_first() -> None:
    head, workers = creating(make_head(), age=60), [creating(make_worker(n), age=60) for n in (1, 0)]
    assert decide_pending(head, *workers).look_up_events_of == head
    assert decide_pending(make_head(), *workers).look_up_events_of == workers[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"node": ""},
        {"is_running": True, "phase": "Running"},
        {"is_deleting": True},
        {"problem": Problem("ImagePullBackOff", "no such image")},
        {"exit_code": 1},
    ],
    ids=str,
)
def test_events_are_not_looked_up_for_pods_that_run_or_give_a_reason(changes: dict[str, Any]) -> None:
    worker = replace(creating(make_worker(0), age=60), **changes)
    assert decide_pending(make_head(), worker, make_worker(1)).look_up_events_of is None


def test_the_events_problem_is_reported_until_the_pod_runs() -> None:
    stuck = creating(make_head(), age=20, looked_up=15, problem=MOUNT)
    decided = decide_pending(stuck, make_worker(0), make_worker(1))
    assert decided.status is not None
    [reconciling] = [c for c in decided.status.fields["conditions"] if c["type"] == "Reconciling"]
    assert (reconciling["reason"], reconciling["message"]) == (
        "FailedMount",
        f"Pod {stuck.name} cannot start: {MOUNT.message}",
    )
    [event] = decided.events
    assert (event.type, event.reason, event.is_series) == ("Warning", "FailedMount", True)
    assert wait_of(decided) == 10, "they are looked up again, for the cause may have changed"
    status = {**PENDING, "conditions": decided.status.fields["conditions"]}
    runs = replace(stuck, phase="Running", is_running=True, problem=None).explain(PodEvents(MOUNT, NOW))
    young = creating(make_worker(0), age=0)
    after = decide_pending(runs, young, make_worker(1), status=status)
    assert after.status is not None
    [reconciling] = [c for c in after.status.fields["conditions"] if c["type"] == "Reconciling"]
    assert reconciling["reason"] == "Pending" and after.events == ()


def test_a_smaller_group_that_trains_reports_what_the_others_wait_for() -> None:
    elastic = {"scaling": {"minWorkers": 1, "maxWorkers": 2}}
    stuck = creating(make_worker(1), age=20, looked_up=15, problem=MOUNT)
    decided = decide_pending(make_head(), make_worker(0), stuck, status=RUNNING_STATUS, **elastic)
    assert decided.status is not None
    messages = [c["message"] for c in decided.status.fields["conditions"] if c["type"] == "Reconciling"]
    assert messages == [
        f"Waiting for 1 worker pods: pod {stuck.name} cannot start: FailedMount; "
        "they join right after a committed checkpoint"
    ]
    assert wait_of(decided) == 10


def test_the_newest_relevant_event_is_reported() -> None:
    events: list[dict[str, Any]] = [
        {"reason": "FailedMount", "message": "old", "lastTimestamp": "2026-01-01T12:00:00Z"},
        {"reason": "FailedAttachVolume", "message": "newer", "eventTime": "2026-01-01T12:00:01.5Z"},
        {
            "reason": "FailedCreatePodSandBox",
            "eventTime": "2026-01-01T11:00:00Z",
            "series": {"lastObservedTime": "2026-01-01T12:00:02.000000Z"},
        },
        {"reason": "Unhealthy", "message": "of something else", "lastTimestamp": "2026-01-01T13:00:00Z"},
    ]
    assert find_problem(events) == Problem("FailedCreatePodSandBox", "FailedCreatePodSandBox")
    assert find_problem(events[:2]) == Problem("FailedAttachVolume", "newer")
    assert find_problem(events[3:]) is None and find_problem([]) is None


@pytest.mark.parametrize(("time", "is_past"), [("12:00:05", True), ("12:00:04", True), ("12:00:03", False)])
def test_a_pod_that_pulls_its_image_has_mounted_its_volumes(time: str, is_past: bool) -> None:
    """A slow pull must not be reported as the failed mount before it."""
    failed = {"reason": "FailedMount", "message": MOUNT.message, "lastTimestamp": "2026-01-01T12:00:04Z"}
    pulling = {"reason": "Pulling", "message": "Pulling image", "lastTimestamp": f"2026-01-01T{time}Z"}
    assert find_problem([pulling, failed]) == (None if is_past else MOUNT)


@pytest.mark.parametrize(
    ("running", "seconds", "is_first"), [(2, 29, True), (2, 30, False), (1, 119, True), (1, 120, False)]
)
def test_once_others_have_run_for_a_while_the_events_of_each_pod_that_is_left_are_read(
    running: int, seconds: float, is_first: bool
) -> None:
    """Before that only those of the first one: a large group starts without a request for each pod."""
    started = [make_worker(slot, node=f"n{slot}", started_at=ago(seconds)) for slot in range(running)]
    left = [
        replace(creating(make_worker(slot), age=400, looked_up=395 if slot == running else None), node=f"left-{slot}")
        for slot in range(running, 4)
    ]
    decided = decide_pending(make_head(), *started, *left, scaling={"numWorkers": 4})
    if is_first:
        assert decided.look_up_events_of is None and wait_of(decided) == 1
    else:
        assert decided.look_up_events_of == left[1]


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)
