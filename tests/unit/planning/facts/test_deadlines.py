"""A gang of which only some pods find a node releases them in the end, so that another one can be complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.contract.times import format_time, parse_time
from railhead.controller.events import find_node_added
from tests.model.crowd import Crowd, count_placed
from tests.unit.planning.simulation import KEY, Simulation

LIMIT = 1800
NODES, GANG = 8, 6
FULL = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."
HOUR = 3600


@contextmanager
def crowd(
    jobs: int = 2, *, seed: int = 1, nodes: int = NODES, seconds: float | None = None, **spec: Any
) -> Iterator[Crowd]:
    made = Crowd(seed, room=nodes, seconds=seconds)
    for number in range(jobs):
        made.apply(f"job-{number}", GANG, **spec)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("seed", range(5))
def test_of_two_jobs_that_each_hold_half_of_the_nodes_one_is_complete_soon_after_the_deadline(seed: int) -> None:
    with crowd(seed=seed) as made:
        made.run(LIMIT - 1)
        assert not made.complete_at and all(count_placed(made.pods_of(name)) for name in made.sizes)
        made.run(LIMIT + 300)
        assert len(made.complete_at) == 1, {name: made.status(name) for name in made.sizes}
        assert sum(made.idle.values()) <= NODES * (LIMIT + 300)


@pytest.mark.parametrize(("jobs", "within"), [(3, LIMIT + 300), (4, LIMIT + 300)])
def test_so_is_one_of_more_jobs(jobs: int, within: int) -> None:
    """A job that had no node at first takes those that the others release, and has its own time for them."""
    with crowd(jobs) as made:
        made.run(within)
        assert len(made.complete_at) == 1


def test_all_of_them_train_one_after_the_other_and_nothing_is_spent() -> None:
    with crowd(3, seconds=60, backoffLimit=0, noProgressLimit=0) as made:
        made.run(2 * HOUR)
        for name in made.sizes:
            status = made.status(name)
            assert status["phase"] == "Succeeded"
            assert not status.get("budget") and not any((status.get("restarts") or {}).values())


def test_a_job_that_released_nothing_waits_for_nobody() -> None:
    with crowd(4) as made:
        made.run(LIMIT + 200)
        made.apply("small", 2)
        made.run(LIMIT + 202)
        assert len(made.pods_of("small")) == 2


def test_another_leader_counts_from_the_same_moment() -> None:
    with crowd() as made:
        made.run(LIMIT - 100)
        made.change_leader()
        made.run(LIMIT + 300)
        assert len(made.complete_at) == 1


def test_a_job_without_a_deadline_keeps_its_nodes() -> None:
    with crowd(partialStartDeadlineSeconds=0) as made:
        made.run(2 * HOUR)
        assert not made.complete_at
        assert all(made.status(name)["attempt"] == 1 for name in made.sizes)


def simulate(**spec: Any) -> Simulation:
    sim = Simulation(**spec)
    settle(sim)
    return sim


def place(sim: Simulation, *pods: str) -> None:
    """The scheduler finds nodes for these, by their role or slot, and none for the others."""
    for name, pod in sim.pods.items():
        if pod.node or not pod.is_live:
            continue
        if (pod.role if pod.role == names.HEAD else str(pod.slot)) in pods:
            sim.api.bind(name, "node-1", namespace=KEY.namespace)
        else:
            sim.cannot_schedule(name, FULL)
    settle(sim)


def settle(sim: Simulation) -> None:
    """Until it waits for something: a look-up of Events is followed by another pass."""
    sim.settle()
    while sim.last.look_up_events_of is not None:
        sim.settle()


def run(sim: Simulation, seconds: float) -> None:
    """The passes for which the operator wakes itself, and one at the end."""
    until = sim.now + timedelta(seconds=seconds)
    while sim.last.wake_at is not None and sim.last.wake_at <= until:
        assert sim.last.wake_at > sim.now, "it wakes at once again"
        sim.now = sim.last.wake_at
        settle(sim)
    sim.now = until
    settle(sim)


def has_released(sim: Simulation) -> bool:
    return bool(sim.status.get("failure", {}).get("reason") == "PartialStartDeadlineExceeded")


def test_nodes_are_held_for_a_minute_at_most_while_other_jobs_read_their_events() -> None:
    """There is one look-up per second for all jobs together: with 300 jobs, the last one waits for 5 minutes."""
    sim = simulate()
    place(sim, "head", "0")
    sim.operator.loop.turns.take = lambda key: 300.0  # type: ignore[method-assign]
    sim.later(LIMIT)
    sim.reconcile()
    assert sim.last.look_up_events_of is not None and not has_released(sim)
    assert sim.last.wake_at == sim.now + timedelta(seconds=60)
    sim.later(59)
    sim.reconcile()
    assert not has_released(sim)
    sim.later(1)
    sim.reconcile()
    assert has_released(sim)


def test_the_pods_are_released_with_a_reason_and_the_next_attempt_waits_longer_each_time() -> None:
    sim = simulate()
    waits = []
    for attempt in range(1, 10):
        assert sim.status["attempt"] == attempt
        place(sim, "head", "0")
        run(sim, LIMIT - 1)
        assert len(sim.pods) == 3
        run(sim, 1)
        assert has_released(sim)
        failure = sim.status["failure"]
        assert (failure["class"], failure["reason"], failure["attempt"]) == (
            "Startup",
            "PartialStartDeadlineExceeded",
            attempt,
        )
        assert failure["message"] == (
            "2 of 3 pods had a node and were released: no further pod got a node for 1800 s "
            f"(spec.partialStartDeadlineSeconds); pod {failure['pod']} cannot start: {FULL}"
        )
        assert not sim.pods and sim.last.wake_at is not None
        waits.append((sim.last.wake_at - sim.now).total_seconds())
        sim.now = sim.last.wake_at
        settle(sim)
    limits = [300, *[600] * 8]
    assert all(limit / 2 - 1 <= wait <= limit for wait, limit in zip(waits, limits, strict=True)), waits
    assert "budget" not in sim.status and sim.losses["startup"] == 9
    sim.run_until_training()
    assert sim.status["phase"] == "Running"


def test_each_pod_that_gets_a_node_begins_the_time_again() -> None:
    sim = simulate(scaling={"numWorkers": 3})
    place(sim, "head")
    run(sim, LIMIT - 1)
    place(sim, "0")
    run(sim, LIMIT - 1)
    place(sim, "1")
    run(sim, LIMIT - 1)
    assert sim.status["attempt"] == 1 and len(sim.pods) == 4
    run(sim, 1)
    assert has_released(sim)


@pytest.mark.parametrize("placed", [(), ("head",)])
def test_a_job_that_holds_no_gpu_has_nothing_to_release(placed: tuple[str, ...]) -> None:
    sim = simulate()
    place(sim, *placed)
    run(sim, 10 * LIMIT)
    assert sim.status["attempt"] == 1 and len(sim.pods) == 3


def test_workers_wait_for_a_head_without_a_node_no_longer_than_for_each_other() -> None:
    sim = simulate()
    place(sim, "0", "1")
    run(sim, LIMIT)
    assert has_released(sim)


def test_pods_that_pull_an_image_have_their_node() -> None:
    sim = simulate()
    place(sim, "head", "0", "1")
    assert not any(pod.is_running for pod in sim.pods.values())
    run(sim, 10 * LIMIT)
    assert sim.status["attempt"] == 1


def test_a_pull_before_the_loss_of_a_pod_does_not_count() -> None:
    sim = simulate()
    place(sim, "head", "0", "1")
    run(sim, 2 * LIMIT)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    settle(sim)
    run(sim, 60)
    place(sim)
    run(sim, LIMIT - 120)
    assert sim.status["attempt"] == 1
    run(sim, 120)
    assert has_released(sim)


ELASTIC = {"minWorkers": 1, "maxWorkers": 3, "desiredWorkers": 3}


@pytest.mark.parametrize("starts", [True, False])
def test_an_elastic_job_that_can_train_releases_nothing(starts: bool) -> None:
    sim = simulate(scaling=ELASTIC)
    place(sim, "head", "0")
    if starts:
        sim.start_pods(but=[name for name, pod in sim.pods.items() if not pod.node])
        sim.report(joined=1)
        settle(sim)
        assert sim.status["phase"] == "Running"
    run(sim, 10 * LIMIT)
    assert sim.status["attempt"] == 1 and len(sim.pods) == 4


def test_an_elastic_job_that_falls_below_its_minimum_has_the_whole_time() -> None:
    sim = simulate(scaling={**ELASTIC, "minWorkers": 2})
    place(sim, "head", "0", "1")
    run(sim, 2 * LIMIT)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 0))
    settle(sim)
    run(sim, 60)
    place(sim)
    assert sim.status["attempt"] == 1
    run(sim, LIMIT)
    assert has_released(sim)


def test_after_a_loss_a_replacement_that_finds_no_node_ends_the_attempt_too() -> None:
    sim = Simulation(backoffLimit=0)
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.later(5 * HOUR)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    settle(sim)
    place(sim)
    run(sim, LIMIT - 1)
    assert sim.status["attempt"] == 1 and len(sim.pods) == 3
    run(sim, 1)
    assert has_released(sim) and not sim.pods
    run(sim, 300)
    assert sim.status["attempt"] == 2 and sim.status["waiting"]["again"]
    assert "budget" not in sim.status and sim.losses["infrastructure"] == 1


@pytest.mark.parametrize(
    ("deadlines", "reason"),
    [
        ({"startDeadlineSeconds": LIMIT - 1}, "StartDeadlineExceeded"),
        ({"startDeadlineSeconds": LIMIT}, "StartDeadlineExceeded"),
        ({"startDeadlineSeconds": LIMIT + 1}, "PartialStartDeadlineExceeded"),
        ({"partialStartDeadlineSeconds": 60, "startDeadlineSeconds": 61}, "PartialStartDeadlineExceeded"),
    ],
)
def test_the_earlier_deadline_wins(deadlines: dict[str, int], reason: str) -> None:
    sim = simulate(**deadlines)
    place(sim, "head", "0")
    run(sim, deadlines.get("partialStartDeadlineSeconds", LIMIT))
    assert sim.status.get("failure", {}).get("reason") == reason


def test_an_earlier_restart_deadline_wins() -> None:
    sim = Simulation(restartDeadlineSeconds=LIMIT - 1)
    sim.run_until_training()
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    settle(sim)
    place(sim)
    run(sim, LIMIT)
    assert sim.status.get("failure", {}).get("reason") == "RestartDeadlineExceeded"


def test_the_deadline_may_change_while_pods_wait() -> None:
    sim = simulate(partialStartDeadlineSeconds=0)
    place(sim, "head", "0")
    run(sim, 3 * LIMIT)
    sim.apply(partialStartDeadlineSeconds=4 * LIMIT)
    settle(sim)
    run(sim, LIMIT - 1)
    assert sim.status["attempt"] == 1 and len(sim.pods) == 3
    sim.apply(partialStartDeadlineSeconds=600)
    settle(sim)
    assert has_released(sim)


def say(sim: Simulation, slot: int, reason: str) -> str:
    """An autoscaler's Event about a pod, whose uid it returns.

    cluster-autoscaler/processors/status/eventing_scale_up_processor.go.
    """
    name, pod = next((name, pod) for name, pod in sim.pods.items() if pod.slot == slot)
    about = {"kind": "Pod", "name": name, "namespace": KEY.namespace, "uid": pod.uid}
    message = "pod triggered scale-up: [{gpus 4->8 (max: 16)}]"
    body = {"metadata": {"name": f"{name}.{sim.now:%H%M%S}"}, "involvedObject": about, "reason": reason}
    body |= {"message": message, "type": "Normal", "lastTimestamp": format_time(sim.now)}
    sim.api.create(("events", KEY.namespace, str(body["metadata"])), body)
    return pod.uid


@pytest.mark.parametrize("reason", ["TriggeredScaleUp", "Nominated"])
def test_a_node_that_is_being_added_begins_the_time_again(reason: str) -> None:
    sim = simulate()
    place(sim, "head", "0")
    run(sim, 1000)
    uid = say(sim, 1, reason)
    run(sim, LIMIT - 1)
    assert sim.status["attempt"] == 1 and len(sim.pods) == 3
    run(sim, 1)
    assert has_released(sim)
    lists = [request for request in sim.operator.client.asked if (request.verb, request.plural) == ("list", "events")]
    assert sum(uid in request.path for request in lists) == 2, "at the end of each time"


def test_what_the_autoscaler_cannot_do_does_not_count() -> None:
    sim = simulate()
    place(sim, "head", "0")
    run(sim, 1000)
    say(sim, 1, "NotTriggerScaleUp")
    run(sim, LIMIT - 1000)
    assert has_released(sim)


def test_the_newest_of_an_autoscalers_events_counts() -> None:
    older, newer = "2026-01-01T12:00:00Z", "2026-01-01T12:15:00Z"
    events = [
        {"reason": "TriggeredScaleUp", "lastTimestamp": older},
        {"reason": "Nominated", "eventTime": "2026-01-01T12:10:00.000000Z"},
        {"reason": "TriggeredScaleUp", "lastTimestamp": newer},
        {"reason": "FailedScheduling", "lastTimestamp": "2026-01-01T13:00:00Z"},
    ]
    assert find_node_added(events) == parse_time(newer)
    assert find_node_added(events[3:]) is None and find_node_added([{"reason": "Nominated"}]) is None
