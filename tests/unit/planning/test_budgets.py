"""spec.backoffLimit is the one budget of failures, and it refills after enough training with a newer checkpoint."""

from __future__ import annotations

from tests.unit.planning.simulation import Simulation

HOUR = 3600


def fail(sim: Simulation, outcome: str = "Application") -> None:
    """The attempt ends; the next one starts if the budget allows it."""
    sim.end_head(outcome)
    sim.settle()
    sim.later(301)
    sim.settle()


def train(sim: Simulation, *, hours: float, checkpoint: int | None = None) -> None:
    sim.run_until_training()
    sim.later(hours * HOUR)
    if checkpoint is not None:
        sim.report(checkpoint=checkpoint)
    sim.settle()


def test_the_budget_refills_after_enough_training_with_a_newer_checkpoint() -> None:
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    assert sim.status["budget"] == {"failures": 1, "runningSeconds": 0, "checkpoint": 0}
    train(sim, hours=6, checkpoint=1)
    fail(sim)
    assert sim.status["phase"] != "Failed" and sim.status["attempt"] == 3
    assert sim.status["budget"] == {"failures": 1, "runningSeconds": 0, "checkpoint": 1}
    assert sim.status["restarts"]["application"] == 2, "the total stays"


def test_training_alone_does_not_refill_the_budget() -> None:
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    train(sim, hours=7)
    fail(sim)
    assert sim.status["phase"] == "Failed"


def test_a_checkpoint_alone_does_not_refill_the_budget() -> None:
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    train(sim, hours=5.9, checkpoint=1)
    fail(sim)
    assert sim.status["phase"] == "Failed"
    message = next(c["message"] for c in sim.status["conditions"] if c["type"] == "Failed")
    assert "backoffLimit 1 is reached" in message


def test_training_time_adds_up_and_waiting_does_not_count() -> None:
    """Daily losses of nodes: no single stretch is long enough."""
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR, partialStartDeadlineSeconds=0)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    for stretch in (1, 2):
        train(sim, hours=2)
        worker = next(name for name, pod in sim.pods.items() if pod.slot == 1 and pod.is_live)
        sim.lose(worker)
        sim.settle()
        assert sim.status["budget"]["runningSeconds"] == stretch * 2 * HOUR
        sim.later(10 * HOUR)  # until there is a node again
        sim.settle()
    assert sim.status["budget"]["runningSeconds"] == 4 * HOUR
    train(sim, hours=2, checkpoint=1)
    fail(sim)
    assert sim.status["phase"] != "Failed"
    assert sim.status["budget"] == {"failures": 1, "runningSeconds": 0, "checkpoint": 1}


def test_the_backoff_resets_with_the_budget() -> None:
    sim = Simulation(backoffLimit=10)
    delays = []
    for hours, checkpoint in ((1, 0), (1, 1), (1, 2), (7, 3)):
        train(sim, hours=hours, checkpoint=checkpoint)
        sim.end_head("Application")
        sim.settle()
        assert sim.last.wake_at is not None
        delays.append(round((sim.last.wake_at - sim.now).total_seconds()))
        sim.later(301)
        sim.settle()
    assert delays == [5, 10, 20, 5]


def test_application_failures_do_not_count_as_attempts_without_progress() -> None:
    sim = Simulation(backoffLimit=5, noProgressLimit=0)
    for _ in range(3):
        sim.run_until_training()
        fail(sim)
    assert sim.status["phase"] != "Failed"
    assert sim.status["restarts"] == {
        "application": 3,
        "infrastructure": 0,
        "withoutProgress": 0,
        "startup": 0,
        "inPlace": 0,
    }
    sim.run_until_training()
    fail(sim, "Infrastructure")
    assert sim.status["phase"] == "Failed"
    message = next(c["message"] for c in sim.status["conditions"] if c["type"] == "Failed")
    assert "1 attempts in a row committed no checkpoint (noProgressLimit 0)" in message


def test_a_job_without_failures_has_no_budget_in_its_status() -> None:
    sim = Simulation()
    train(sim, hours=9, checkpoint=0)
    sim.lose(sim.head.name)
    sim.settle()
    assert "budget" not in sim.status
