"""The cost of a job that always fails, with the default limits: attempts, and thus hours of all its GPUs."""

from __future__ import annotations

import pytest

from tests.unit.planning.simulation import Simulation

HOUR = 3600


def lose_attempts(sim: Simulation, kind: str, *, hours: float) -> int:
    """Each attempt trains for a minute, commits nothing and is lost; returns the number of attempts."""
    until = sim.now.timestamp() + hours * HOUR
    attempt = 0
    while sim.now.timestamp() < until and sim.status.get("phase") != "Failed":
        if sim.status.get("attempt", 0) == attempt:
            sim.later(10)
            sim.settle()
            continue
        attempt = sim.status["attempt"]
        sim.run_until_training()
        sim.later(60)
        sim.end_head(kind)
        sim.settle()
    return attempt


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [("Application", 4), ("OutOfMemory", 4), ("Infrastructure", 4), ("Hang", 4), ("Hardware", 4), ("Configuration", 1)],
)
def test_a_job_that_always_fails_ends_after_a_few_attempts(kind: str, attempts: int) -> None:
    sim = Simulation()
    sim.settle()
    assert lose_attempts(sim, kind, hours=24) == attempts
    assert sim.status["phase"] == "Failed"


@pytest.mark.parametrize(("hours", "ends"), [(1, True), (7, False)])
def test_a_function_that_hangs_after_each_checkpoint_ends_unless_it_trains_for_long(hours: int, ends: bool) -> None:
    """backoffResetSeconds is 6 hours."""
    sim = Simulation()
    sim.settle()
    for number in range(8):
        if sim.status.get("phase") == "Failed":
            break
        sim.run_until_training()
        sim.later(hours * HOUR)
        sim.report(checkpoint=number)
        sim.later(HOUR)
        sim.end_head("Hang")
        sim.settle()
        sim.later(400)
        sim.settle()
    assert (sim.status["phase"] == "Failed") is ends
    if ends:
        assert sim.status["attempt"] == 4
        [message] = [c["message"] for c in sim.status["conditions"] if c["type"] == "Failed"]
        assert "4 attempts in a row committed no checkpoint or hung within backoffResetSeconds of training" in message


def test_unlimited_disruptions_hold_the_gpus_a_sixth_of_the_time() -> None:
    """An attempt of a minute, then five minutes without pods, apart from the first few."""
    sim = Simulation()
    sim.settle()
    attempts = lose_attempts(sim, "Preemption", hours=6)
    assert 6 * HOUR / 375 <= attempts <= 6 * HOUR / 360 + 8
    assert sim.status["phase"] != "Failed", "only the user's limits end it: disruptionLimit, activeDeadlineSeconds"


def test_a_start_that_always_fails_releases_the_gpus_between_attempts() -> None:
    """The user's startDeadlineSeconds is the price of each try."""
    sim = Simulation(startDeadlineSeconds=600)
    sim.settle()
    began, attempts = sim.now, sim.status["attempt"]
    while (sim.now - began).total_seconds() < 6 * HOUR:
        sim.later(10)
        sim.settle()
    attempts = sim.status["attempt"] - attempts
    assert 6 * HOUR / 660 <= attempts <= 6 * HOUR / 640 + 3
