"""A gang half of which is rejected: it does not hold its GPUs for long, and no budget is charged."""

from __future__ import annotations

from datetime import timedelta

import pytest

from railhead.planning.facts.deadlines import HOLD_SECONDS, OUTAGE_SECONDS
from tests.unit.planning.simulation import Simulation
from tests.unit.planning.test_rejections import QUOTA, reject_slot

NOT_A_QUOTA = ["denied the request: no label team", "violates PodSecurity", "User cannot create pods"]


def wait_until_released(sim: Simulation, *, limit: int = 900) -> float:
    """Follow `wake_at` until no pod is left; returns the seconds."""
    began = sim.now
    while sim.pods and sim.now - began < timedelta(seconds=limit):
        sim.settle()
        if sim.pods:
            assert sim.last.wake_at is not None and sim.last.wake_at > sim.now
            sim.now = sim.last.wake_at
    return (sim.now - began).total_seconds()


def test_all_pods_are_released_after_the_hold_time_and_the_next_attempt_follows() -> None:
    sim = Simulation(rejects=reject_slot(1))
    sim.settle()
    assert len(sim.pods) == 2
    assert wait_until_released(sim) == HOLD_SECONDS
    failure = sim.status["failure"]
    assert (failure["class"], failure["reason"], failure["attempt"]) == ("Startup", "QuotaExceeded", 1)
    assert failure["message"].endswith(f"{QUOTA}; the 2 pods that exist were released after 30 s")
    assert sim.status["phase"] == "Restarting"
    sim.rejects = lambda body: ""
    sim.later(5)
    sim.settle()
    assert sim.status["attempt"] == 2 and len(sim.pods) == 3
    assert sim.status["restarts"] == {
        "application": 0,
        "infrastructure": 0,
        "withoutProgress": 0,
        "startup": 1,
        "inPlace": 0,
    }
    sim.run_until_training()
    assert sim.status["phase"] == "Running"


def test_the_next_attempts_back_off_and_hold_their_pods_no_longer() -> None:
    sim = Simulation(rejects=reject_slot(1))
    waits = []
    for attempt in range(1, 11):
        sim.settle()
        assert sim.status["attempt"] == attempt
        assert wait_until_released(sim) == HOLD_SECONDS
        sim.settle()
        assert sim.last.wake_at is not None
        waits.append((sim.last.wake_at - sim.now).total_seconds())
        sim.now = sim.last.wake_at
    limits = [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert all(limit / 2 - 1 <= wait <= limit for wait, limit in zip(waits, limits, strict=True)), waits
    assert sim.status["phase"] == "Restarting", "no budget ends it"


def test_a_group_that_trained_meanwhile_waits_as_after_the_first_time() -> None:
    sim = Simulation(rejects=reject_slot(1))
    for _ in range(5):
        sim.settle()
        assert wait_until_released(sim) == HOLD_SECONDS
        sim.settle()
        assert sim.last.wake_at is not None
        sim.now = sim.last.wake_at
    sim.rejects = lambda body: ""
    sim.run_until_training()
    assert "startLine" not in sim.status
    sim.rejects = reject_slot(1)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    assert wait_until_released(sim) == HOLD_SECONDS
    sim.settle()
    assert sim.last.wake_at is not None and (sim.last.wake_at - sim.now).total_seconds() <= 5


def test_a_driver_that_has_reported_does_not_prevent_the_release() -> None:
    sim = Simulation(rejects=reject_slot(1))
    sim.settle()
    sim.start_pods()
    sim.report("STARTING")
    assert wait_until_released(sim) == HOLD_SECONDS
    assert sim.status["failure"]["class"] == "Startup"


def test_a_group_whose_replacement_is_rejected_resumes_from_its_checkpoint_later() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.later(3600)
    sim.rejects = reject_slot(1)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    assert wait_until_released(sim) == HOLD_SECONDS
    assert sim.status["restarts"]["infrastructure"] == 1
    sim.rejects = lambda body: ""
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.status["restarts"]["startup"] == 1
    assert sim.status["restarts"]["infrastructure"] == 1 and sim.status["restarts"]["withoutProgress"] == 0


def test_a_short_rejection_after_a_long_wait_for_nodes_releases_nothing() -> None:
    """An hour without training is no reason: only the rejection counts."""
    sim = Simulation()
    sim.settle()
    sim.later(3600)
    sim.rejects = reject_slot(1)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    sim.settle()
    assert len(sim.pods) == 2 and sim.last.wake_at is not None
    sim.rejects = lambda body: ""
    sim.now = sim.last.wake_at
    sim.settle()
    assert (sim.status["attempt"], len(sim.pods)) == (1, 3)


def test_the_hold_time_counts_from_the_first_pod() -> None:
    sim = Simulation(rejects=lambda body: QUOTA)
    for _ in range(20):
        sim.settle()
        assert sim.last.wake_at is not None
        sim.now = sim.last.wake_at
    sim.rejects = reject_slot(1)
    sim.settle()
    assert sim.status["attempt"] == 1 and len(sim.pods) == 2
    assert wait_until_released(sim) == HOLD_SECONDS, "counted from the first pod"


def test_an_elastic_job_with_enough_pods_keeps_them() -> None:
    sim = Simulation(scaling={"minWorkers": 1, "maxWorkers": 2}, rejects=reject_slot(1))
    sim.settle()
    for _ in range(10):
        sim.later(60)
        sim.settle()
    assert sim.status["attempt"] == 1 and len(sim.pods) == 2


@pytest.mark.parametrize("message", NOT_A_QUOTA)
def test_a_group_that_was_complete_survives_nine_minutes_in_which_its_replacement_is_denied(message: str) -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.rejects = reject_slot(1, message)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    kept = {pod.uid for pod in sim.pods.values()}
    began = sim.now
    while sim.now - began < timedelta(minutes=9):
        sim.settle()
        assert sim.last.wake_at is not None
        sim.now = sim.last.wake_at
    sim.rejects = lambda body: ""
    sim.later(10)
    sim.settle()
    assert sim.status["attempt"] == 1 and len(sim.pods) == 3
    assert kept < {pod.uid for pod in sim.pods.values()}


@pytest.mark.parametrize("message", NOT_A_QUOTA)
def test_a_group_whose_replacement_is_denied_for_ten_minutes_is_released(message: str) -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.rejects = reject_slot(1, message)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    assert wait_until_released(sim) == OUTAGE_SECONDS
    assert sim.status["failure"]["message"].endswith("were released after 600 s")


def test_a_group_that_was_never_complete_is_not_kept_for_a_webhook() -> None:
    sim = Simulation(rejects=reject_slot(1, NOT_A_QUOTA[0]))
    sim.settle()
    assert wait_until_released(sim) == HOLD_SECONDS
