"""status.goodput rides in status writes that happen anyway."""

from __future__ import annotations

from typing import Any

from railhead.contract.spent import Spent
from tests.unit.builders import RUNNING_STATUS, make_head, make_worker
from tests.unit.planning.simulation import Simulation
from tests.unit.planning.state import decide


def check_sum(sim: Simulation) -> dict[str, Any]:
    goodput: dict[str, Any] = sim.status["goodput"]
    assert goodput["productiveSeconds"] + sum(goodput["lostSeconds"].values()) == goodput["wallSeconds"]
    return goodput


def test_time_that_passes_is_no_reason_for_a_write() -> None:
    goodput = {"time": "2026-01-01T11:00:00Z"}
    plan = decide(make_head(), make_worker(0), make_worker(1), status={**RUNNING_STATUS, "goodput": goodput})
    assert plan.status is None


def test_a_job_is_accounted_for_from_its_start_to_its_end() -> None:
    sim = Simulation()
    sim.settle()
    sim.later(30)
    sim.run_until_training()
    sim.later(100)
    sim.report(spent=Spent(starting=5000, productive=90_000, uncommitted=90_000), metrics={"loss": "1"})
    sim.later(5)
    sim.end_head("Infrastructure")
    sim.settle()
    found = check_sum(sim)
    assert found["lostSeconds"]["retrained"] == 90 and found["productiveSeconds"] == 0
    assert found["lostSeconds"]["podsPending"] >= 30 and found["interruptions"] == {"Infrastructure": 1}
    sim.later(400)
    sim.run_until_training()
    sim.later(50)
    sim.report(spent=Spent(productive=50_000), metrics={"loss": "2"})
    sim.end_head("Succeeded")
    sim.settle()
    found = check_sum(sim)
    assert found["productiveSeconds"] == 50 and sim.status["phase"] == "Succeeded"
    sim.later(500)
    sim.settle()
    assert sim.status["goodput"] == found, "frozen"
