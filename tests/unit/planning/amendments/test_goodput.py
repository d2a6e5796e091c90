"""status.goodput rides in status writes that happen anyway."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from railhead.api import conditions as types
from railhead.contract.outcome import Outcome
from railhead.contract.report import ReportedOutcome
from railhead.contract.spent import Spent
from railhead.contract.times import format_time
from railhead.planning.amendments.count_time import count_running_time
from railhead.planning.facts.failure_budget import charge_failures
from railhead.planning.plan import Decision
from railhead.planning.wanted_status import WantedStatus, set_not_running
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_job, make_worker
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


def test_the_time_until_a_queued_job_is_restored_is_not_counted_as_queued() -> None:
    """The restore settles the account until the backup, and that adds nothing to it."""
    goodput = {"time": "2026-01-01T11:00:00Z", "wallSeconds": 9, "lostSeconds": {"queued": 9}, "percent": "0.0"}
    status = {"phase": "Queued", "attempt": 1, "run": {"name": "digits", "uid": "of-the-backup"}, "goodput": goodput}
    restored = decide(status=status)
    assert restored.status is not None and restored.status.fields["phase"] == "Suspended"
    assert "goodput" not in restored.status.fields


def test_a_budget_that_begins_again_counts_nothing_of_the_training_before_it() -> None:
    an_hour_ago = format_time(NOW - timedelta(hours=1))
    running = {"type": types.RUNNING, "status": "True", "reason": "Training", "lastTransitionTime": an_hour_ago}
    job = make_job(status={**RUNNING_STATUS, "conditions": [running], "budget": {}})
    stopped = set_not_running(job, types.RECONCILING, reason="Restarting", message="")
    ended = count_running_time(job, Decision(wanted=WantedStatus(stopped))).status_after(job)
    assert ended.budget is not None and ended.budget.running_seconds == 3600
    charged = charge_failures(job, stopped, 1)
    assert charged.budget == job.status.budget
    assert count_running_time(job, Decision(wanted=WantedStatus(charged))).status_after(job) == charged


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


def test_an_end_that_is_seen_before_the_last_report_is_written_is_accounted_for() -> None:
    sim = Simulation()
    sim.settle()
    sim.run_until_training()
    sim.report(spent=Spent(starting=5000, productive=1000), metrics={"loss": "1"})
    sim.later(100)
    sim.end_with(Outcome("Succeeded", spent=Spent(starting=5000, productive=90_000, checkpointing=6000)))
    sim.settle()
    found = check_sum(sim)
    assert (found["productiveSeconds"], found["lostSeconds"]["checkpointing"]) == (90, 6)


def test_the_last_report_counts_if_it_is_written_in_time() -> None:
    """It is newer than the termination message, which the driver writes first."""
    sim = Simulation()
    sim.settle()
    sim.run_until_training()
    sim.later(100)
    done = ReportedOutcome("Succeeded")
    sim.report("FINISHED", spent=Spent(starting=5000, productive=91_000), outcome=done)
    sim.end_with(Outcome("Succeeded", spent=Spent(starting=5000, productive=90_000)))
    sim.settle()
    assert check_sum(sim)["productiveSeconds"] == 91
