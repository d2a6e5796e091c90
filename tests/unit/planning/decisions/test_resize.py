"""Elastic jobs: training with fewer workers, and with a number that the user changes meanwhile."""

from __future__ import annotations

from typing import Any

from railhead.api import names
from tests.unit.builders import to_job
from tests.unit.planning.simulation import Simulation


def elastic(desired: int | None = None, **changes: Any) -> dict[str, Any]:
    scaling = {"minWorkers": 2, "maxWorkers": 6, "desiredWorkers": desired, **changes}
    return {"scaling": {key: value for key, value in scaling.items() if value is not None}}


def worker_slots(sim: Simulation) -> list[int]:
    return sorted(p.slot for p in sim.pods.values() if p.role == names.WORKER and p.is_live)


def start(sim: Simulation, *, but: int = 0) -> None:
    """All pods run except the last `but` workers."""
    sim.start_pods(but=[name for name, _ in _workers(sim)[::-1][:but]])


def _workers(sim: Simulation) -> list[tuple[str, int]]:
    return sorted(((n, p.slot) for n, p in sim.pods.items() if p.role == names.WORKER), key=lambda pair: pair[1])


def test_desired_workers_default_to_the_maximum() -> None:
    sim = Simulation(**elastic())
    sim.settle()
    assert worker_slots(sim) == [0, 1, 2, 3, 4, 5]


def test_pods_of_several_workers_are_counted_as_pods() -> None:
    sim = Simulation(**elastic(4, workersPerPod=2))
    sim.settle()
    assert worker_slots(sim) == [0, 1]
    assert to_job(sim.observe()).least_workers == 1


def test_training_starts_without_all_pods_and_the_status_names_the_missing_one() -> None:
    sim = Simulation(**elastic(4))
    sim.settle()
    start(sim, but=1)
    sim.settle()
    assert sim.status["phase"] == "Starting"
    messages = {c["type"]: c["message"] for c in sim.status["conditions"]}
    assert "3 of 4 worker pods are up" in messages["Reconciling"]
    assert "after 120 s with at least 2" in messages["Reconciling"]
    sim.report(joined=3)
    last = _workers(sim)[-1][0]
    sim.cannot_schedule(last, "no")
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert sim.status["workers"] == {"desired": 4, "ready": 3, "joined": 3}
    messages = {c["type"]: c["message"] for c in sim.status["conditions"]}
    assert messages["Running"] == "Training runs on 3 of 4 worker pods (attempt 1)"
    assert f"Waiting for 1 worker pods: pod {last} cannot start: Unschedulable" in messages["Reconciling"]


def test_a_lost_worker_is_replaced_while_training_continues() -> None:
    sim = Simulation(**elastic(3))
    sim.run_until_training()
    sim.lose(_workers(sim)[0][0])
    sim.settle()
    assert sim.status["phase"] == "Running", "the driver reports when the group restarts"
    assert (sim.status["round"], sim.status["restarts"]["infrastructure"]) == (1, 1)
    assert worker_slots(sim) == [0, 1, 2]
    sim.report("RESTARTING")
    sim.settle()
    assert sim.status["phase"] == "Restarting"
    sim.report(joined=2)
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert sim.status["workers"] == {"desired": 3, "ready": 2, "joined": 2}
    sim.start_pods()
    sim.report(joined=3)
    sim.settle()
    assert sim.status["workers"] == {"desired": 3, "ready": 3, "joined": 3}
    assert not sim.check_condition("Reconciling")


def test_training_needs_the_minimum_number_of_workers() -> None:
    sim = Simulation(**elastic(2))
    sim.run_until_training()
    sim.lose(_workers(sim)[0][0])
    sim.report("RESTARTING")
    sim.settle()
    assert not to_job(sim.observe()).are_enough_up


def test_additional_workers_are_created_at_once() -> None:
    sim = Simulation(**elastic(2))
    sim.run_until_training()
    before = set(sim.pods)
    sim.apply(**elastic(5))
    sim.settle()
    assert worker_slots(sim) == [0, 1, 2, 3, 4]
    assert before <= set(sim.pods), "running pods stay"
    assert sim.status["workers"]["desired"] == 5
    assert "restarts" not in sim.status, "nothing was lost"
    assert "Resized" in sim.events
    assert sim.status["phase"] == "Running"


def test_surplus_workers_leave_only_after_the_next_commit() -> None:
    sim = Simulation(**elastic(5))
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.settle()
    sim.apply(**elastic(2))
    sim.settle()
    assert sim.status["resize"] == {"workerPods": 2, "afterCheckpoint": 3}
    assert worker_slots(sim) == [0, 1, 2, 3, 4]
    messages = {c["type"]: c["message"] for c in sim.status["conditions"]}
    assert "3 worker pods leave right after the next committed checkpoint" in messages["Reconciling"]
    sim.report(checkpoint=4)
    sim.settle()
    assert worker_slots(sim) == [0, 1]
    assert "resize" not in sim.status
    assert sim.status["round"] == 1 and "workerLosses" not in sim.status
    assert sim.status["workers"]["desired"] == 2


def test_a_reverted_resize_costs_nothing() -> None:
    sim = Simulation(**elastic(4))
    sim.run_until_training()
    sim.apply(**elastic(2))
    sim.settle()
    sim.apply(**elastic(4))
    sim.settle()
    assert "resize" not in sim.status
    sim.report(checkpoint=0)
    sim.settle()
    assert worker_slots(sim) == [0, 1, 2, 3]
    assert sim.count_deleted() == 0


def test_before_training_surplus_pods_leave_at_once_idle_ones_first() -> None:
    sim = Simulation(**elastic(4))
    sim.settle()
    sim.start_pods(but=[name for name, slot in _workers(sim) if slot == 1])
    sim.apply(**elastic(3))
    sim.settle()
    assert worker_slots(sim) == [0, 2, 3]


def test_the_next_attempt_starts_with_the_newly_desired_number() -> None:
    sim = Simulation(**elastic(2))
    sim.run_until_training()
    sim.apply(**elastic(4))
    sim.end_head("Infrastructure")
    for _ in range(4):
        sim.later(400)
        sim.settle()
    assert sim.status["attempt"] == 2
    assert worker_slots(sim) == [0, 1, 2, 3]


def lose_head(sim: Simulation) -> None:
    """And waits for the next attempt."""
    sim.lose(sim.head.name)
    for _ in range(2):
        sim.later(400)
        sim.settle()


def test_a_head_that_vanishes_while_workers_are_missing_is_lost_rather_than_recreated() -> None:
    sim = Simulation(**elastic(4))
    sim.settle()
    start(sim, but=1)
    sim.settle()
    lose_head(sim)
    assert sim.status["attempt"] == 2


def test_the_same_holds_for_a_fixed_number_of_workers() -> None:
    sim = Simulation(scaling={"numWorkers": 2})
    sim.run_until_training()
    sim.lose(_workers(sim)[0][0])
    sim.settle()
    lose_head(sim)
    assert sim.status["attempt"] == 2
    assert len(sim.heads) == len(set(sim.heads)) == 2
