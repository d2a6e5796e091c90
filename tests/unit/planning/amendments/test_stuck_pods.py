"""Pods that are Terminating 5 minutes beyond their grace period are in the status, with one event for all of them."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from railhead.api.errors import InvalidSpec
from railhead.contract.times import format_time
from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView
from tests.unit.builders import NOW, RUNNING_STATUS, make_attempt, make_head, make_observed, make_spec, make_worker
from tests.unit.planning.simulation import Simulation

REASON = "PodStuckTerminating"
SINCE = NOW - timedelta(seconds=300)
LIMIT = 32


def make_stuck(slot: int, since: datetime = SINCE, **changes: Any) -> PodView:
    """A worker pod of the first attempt."""
    return make_worker(slot, is_deleting=True, deletion_timestamp=since, **changes)


def describe(pod: PodView) -> dict[str, Any]:
    assert pod.deletion_timestamp is not None
    return {"name": pod.name, "node": pod.node, "since": format_time(pod.deletion_timestamp)}


def decide(*stuck: PodView, listed: list[dict[str, Any]] | None = None) -> Plan:
    """For a job that trains despite them."""
    live = (make_head(), make_worker(0, round_=1), make_worker(1, round_=1))
    status = {**RUNNING_STATUS, "round": 1, "attempts": [make_attempt(rounds=1)], "stuckPods": listed}
    return plan(make_observed(*live, *stuck, status=status))


def events_of(wanted: Plan) -> list[str]:
    return [event.message for event in wanted.events if event.reason == REASON]


def test_a_pod_is_listed_five_minutes_after_its_grace_period_until_it_is_gone() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=0)
    head = sim.head.name
    due = sim.evict(head, gone_in=65) - timedelta(seconds=5) + timedelta(seconds=300)
    sim.later(100)
    sim.settle()
    sim.run_until_training()
    assert sim.status["attempt"] == 2 and sim.last.wake_at == due
    sim.now = due - timedelta(seconds=1)
    sim.settle()
    assert "stuckPods" not in sim.status
    sim.now = due
    writes = sim.count_status_writes()
    sim.settle()
    since = sim.bodies[head]["metadata"]["deletionTimestamp"]
    assert sim.status["stuckPods"] == [{"name": head, "node": "node-1", "since": since}]
    sim.later(3600)
    sim.settle()
    assert sim.count_status_writes() == writes + 1 and sim.events.count(REASON) == 1
    sim.lose(head)
    sim.settle()
    assert "stuckPods" not in sim.status
    assert sim.status["phase"] == "Running" and sim.events.count(REASON) == 1


def test_the_event_names_pod_node_and_time_and_what_to_do() -> None:
    pod = make_stuck(0)
    [message] = events_of(decide(pod))
    assert f"{pod.name} on node node-1 since 2026-01-01T11:55:00Z" in message
    assert "delete its Node object" in message
    assert "node.kubernetes.io/out-of-service" in message
    assert "kubectl delete pod NAME --force" in message


def test_pods_of_suspended_and_finished_jobs_are_listed_too() -> None:
    sim = Simulation()
    sim.run_until_training()
    worker = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.evict(worker, gone_in=35)
    sim.settle()
    sim.run_until_training()
    sim.later(100)
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.last.wake_at is not None
    sim.now = sim.last.wake_at
    sim.settle()
    assert [pod["name"] for pod in sim.status["stuckPods"]] == [worker]
    sim.apply()
    sim.settle()
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and "stuckPods" in sim.status
    sim.lose(worker)
    sim.settle()
    assert "stuckPods" not in sim.status


def test_pods_due_at_the_same_time_cost_one_write_and_one_event() -> None:
    pods = [make_stuck(slot) for slot in range(512)]
    wanted = decide(*pods)
    assert wanted.status is not None
    first = sorted(pods, key=lambda pod: pod.name)[:LIMIT]
    assert wanted.status.fields == {"stuckPods": [describe(pod) for pod in first]}
    [message] = events_of(wanted)
    assert message.startswith("512 pods ") and len(message) < 1024
    assert decide(*pods, listed=wanted.status.fields["stuckPods"]).status is None


@pytest.mark.parametrize("order", ["as listed", "random"])
def test_many_pods_disappearing_one_by_one_cost_few_writes_and_no_event(order: str) -> None:
    pods = sorted((make_stuck(slot) for slot in range(512)), key=lambda pod: pod.name)
    if order == "random":
        random.Random(1).shuffle(pods)
    writes, listed = -1, None
    while True:
        wanted = decide(*pods, listed=listed)
        if wanted.status is not None:
            writes, listed = writes + 1, wanted.status.fields["stuckPods"]
            assert writes == 0 or not events_of(wanted)
        if len(pods) < LIMIT:
            assert {pod["name"] for pod in listed or []} == {pod.name for pod in pods}, "a list with room is exact"
        if not pods:
            break
        pods.pop(0)
    assert writes <= 2 * 512 / LIMIT + LIMIT


def test_a_pod_due_later_gets_its_own_event() -> None:
    first, second = make_stuck(0, SINCE - timedelta(seconds=1)), make_stuck(1)
    assert decide(first, make_stuck(1, SINCE + timedelta(seconds=1))).wake_at == NOW + timedelta(seconds=1)
    wanted = decide(second, first, listed=[describe(first)])
    assert wanted.status is not None
    assert wanted.status.fields == {"stuckPods": [describe(first), describe(second)]}
    [message] = events_of(wanted)
    assert second.name in message and first.name not in message


def test_it_joins_the_write_of_a_decision() -> None:
    wanted = plan(make_observed(make_worker(0), make_stuck(1, round_=1), status=RUNNING_STATUS))
    assert wanted.status is not None
    assert {"failure", "stuckPods"} <= wanted.status.fields.keys()
    assert {event.reason for event in wanted.events} == {"Restarting", REASON}


def test_a_guard_that_becomes_the_write_still_guards() -> None:
    status = {**RUNNING_STATUS, "phase": "Pending", "attempt": 2, "head": {}, "workers": {}, "progress": {}}
    status["attempts"] = [make_attempt(number=2, runningTime=None)]
    wanted = plan(make_observed(make_head(2), make_stuck(0), status=status))
    assert len([create for create in wanted.creates if create.kind == "Pod"]) == 2
    assert wanted.status is not None and wanted.status.fields.keys() == {"stuckPods"}
    assert wanted.status.tests["/status/attempt"] == 2


def test_the_status_is_not_written_before_the_job_is_deleted() -> None:
    complete = {**RUNNING_STATUS["conditions"][0], "type": "Complete"}
    status = {**RUNNING_STATUS, "phase": "Succeeded", "conditions": [complete]}
    spec = make_spec(ttlSecondsAfterFinished=0)
    wanted = plan(make_observed(make_stuck(0), status=status, spec=spec))
    assert wanted.delete_job is not None and wanted.status is None


def test_pods_of_a_job_with_an_invalid_spec_are_listed_too() -> None:
    observed = make_observed(make_stuck(0), status=RUNNING_STATUS)
    wanted = plan(replace(observed, spec=InvalidSpec("spec.image", "missing")))
    assert wanted.status is not None and wanted.status.fields["stuckPods"] == [describe(make_stuck(0))]
