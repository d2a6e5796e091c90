"""A deleted TrainJob that a finalizer keeps: its pods go like those of a suspended job, and none follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railhead.api import names
from tests.unit.builders import is_empty
from tests.unit.planning.simulation import JOB, Simulation

NEWEST = {"uri": "/runs/c9", "index": 9, "time": "2026-01-01T00:00:00Z", "metrics": {}}
DAY = 86_400


def delete(
    sim: Simulation, *, finalizers: tuple[str, ...] = ("example.com/backup",), policy: str = "Background"
) -> None:
    sim.api.patch(JOB, {"metadata": {"finalizers": list(finalizers)}})
    sim.api.delete(JOB, {"propagationPolicy": policy})


def running(**spec: Any) -> Simulation:
    sim = Simulation(**spec)
    sim.run_until_training()
    return sim


def test_the_head_of_a_deleted_job_commits_a_last_checkpoint_before_the_workers_go() -> None:
    sim = running()
    head = sim.head.name
    sim.stuck.add(head)
    delete(sim)
    sim.settle()
    assert sim.status["phase"] == "Suspending" and len(sim.pods) == 3
    assert [name for name, pod in sim.pods.items() if pod.is_deleting] == [head]
    assert sim.last.wake_at == sim.pods[head].gone_by
    sim.end_pod(head, "Preemption", checkpoint=NEWEST)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.status["checkpoint"]["index"] == 9
    assert not [pod for pod in sim.pods.values() if not pod.is_over]
    message = next(c["message"] for c in sim.status["conditions"] if c["type"] == "Suspended")
    assert message == "The job is deleted and has no pods; a finalizer in its metadata keeps the object"


def test_the_workers_of_a_deleted_job_do_not_wait_for_a_head_beyond_its_grace_period() -> None:
    sim = running()
    sim.stuck.add(sim.head.name)
    delete(sim)
    sim.settle()
    assert sim.last.wake_at is not None
    sim.now = sim.last.wake_at
    sim.settle()
    assert list(sim.pods) == list(sim.stuck)


def suspend(sim: Simulation) -> None:
    sim.run_until_training()
    sim.apply(suspend=True)
    sim.settle()
    sim.apply()


def begin_to_suspend(sim: Simulation) -> None:
    sim.run_until_training()
    sim.stuck.add(sim.head.name)
    sim.apply(suspend=True)
    sim.settle()
    sim.apply()
    sim.stuck.clear()


def back_off(sim: Simulation) -> None:
    sim.run_until_training()
    sim.end_head("Application")
    sim.reconcile()
    assert sim.status["phase"] == "Restarting"


def lose_worker(sim: Simulation) -> None:
    sim.run_until_training()
    sim.lose(next(name for name, pod in sim.pods.items() if pod.role == names.WORKER))


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
@pytest.mark.parametrize(
    "reach",
    [
        lambda sim: None,
        Simulation.settle,
        Simulation.run_until_training,
        suspend,
        begin_to_suspend,
        back_off,
        lose_worker,
    ],
)
def test_no_pod_of_a_deleted_job_stays_or_follows(reach: Callable[[Simulation], None], policy: str) -> None:
    sim = Simulation(activeDeadlineSeconds=DAY // 2)
    reach(sim)
    delete(sim, policy=policy)
    created, attempt = sim.count_created("pods"), sim.status.get("attempt", 0)
    for _ in range(4):
        sim.api.collect()
        sim.settle()
        sim.later(DAY)
    assert not [pod for pod in sim.pods.values() if not pod.is_over]
    assert sim.count_created("pods") == created
    assert (sim.status["phase"], sim.status.get("attempt", 0)) == ("Suspended", attempt)
    assert is_empty(sim.reconcile())


def test_a_job_that_finishes_while_it_is_deleted_has_succeeded() -> None:
    sim = running()
    sim.stuck.add(sim.head.name)
    delete(sim)
    sim.settle()
    sim.end_pod(next(iter(sim.stuck)), "Succeeded")
    sim.settle()
    assert sim.status["phase"] == "Succeeded"


def test_a_finished_job_that_a_finalizer_keeps_is_cleaned_up_and_deleted_once() -> None:
    sim = running(ttlSecondsAfterFinished=DAY)
    sim.end_head("Succeeded")
    sim.settle()
    delete(sim)
    for _ in range(3):
        sim.settle()
        sim.later(DAY)
    assert not sim.pods and sim.status["phase"] == "Succeeded"
    assert sim.api.deletes["trainjobs", "digits"] == 1
    assert is_empty(sim.reconcile())


def test_the_pods_of_a_job_that_is_deleted_with_cascade_orphan_stay() -> None:
    sim = running()
    delete(sim, finalizers=("example.com/backup", "orphan"))
    before = sim.api.version
    sim.reconcile()
    assert sim.api.version == before and len([pod for pod in sim.pods.values() if pod.is_live]) == 3
