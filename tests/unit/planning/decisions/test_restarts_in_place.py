"""The driver's restarts in place count in spec.backoffLimit, each exactly once, no matter when reports arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.contract.outcome import Outcome
from railhead.contract.report import RestartInPlace
from tests.unit.planning.simulation import KEY, Simulation

RAISED = RestartInPlace(1, 1, "Application", "TrainFunctionRaised", "rank 1: ValueError: no")
BEFORE = Outcome("Infrastructure", "RayTrainFailed", "gone")


def allowed(sim: Simulation) -> int:
    """As the answer to a report says."""
    facts = sim.operator.state.find_facts(KEY)
    assert facts is not None
    return facts.limits.restarts


def start(**spec: Any) -> Simulation:
    sim = Simulation(**spec)
    sim.run_until_training()
    return sim


def spent(sim: Simulation) -> int:
    return int((sim.status.get("budget") or {}).get("failures", 0))


def test_a_restart_in_place_costs_one_failure_and_no_pod() -> None:
    sim = start(backoffLimit=3)
    assert allowed(sim) == 3
    pods = set(sim.pods)
    sim.report("RESTARTING", restart=RAISED)
    sim.settle()
    assert set(sim.pods) == pods and sim.status["attempt"] == 1
    assert sim.status["restarts"]["inPlace"] == 1 and sim.status["restarts"]["application"] == 0
    assert spent(sim) == 1
    assert allowed(sim) == 3, "in total, including the one already spent"
    assert sim.events.count("RestartedInPlace") == 1
    sim.report("RUNNING", restart=RAISED)
    sim.restart()
    sim.settle()
    assert spent(sim) == 1 and sim.events.count("RestartedInPlace") == 1
    assert sim.status["phase"] == "Running"


def test_the_event_names_the_failure_and_the_budget_spent() -> None:
    sim = start(backoffLimit=3)
    sim.report("RESTARTING", restart=RAISED)
    sim.settle()
    [event] = [e.object for e in sim.api.log if e.plural == "events" and e.object["reason"] == "RestartedInPlace"]
    assert event["message"] == (
        "Restart 1 of the worker group in the pods of attempt 1, of which 1 count in backoffLimit 3 "
        "(Application: rank 1: ValueError: no)"
    )


def test_the_termination_message_counts_restarts_whose_reports_were_lost() -> None:
    """Two restarts and the failure that ended the attempt are three failures."""
    sim = start(backoffLimit=5)
    sim.report("RESTARTING", restart=RAISED)
    sim.settle()
    sim.end_with(Outcome("Application", "TrainFunctionRaised", "no", restarts=2, charged_restarts=2))
    sim.settle()
    assert spent(sim) == 2 and sim.status["failure"]["class"] == "Application"
    sim.later(301)
    sim.settle()
    assert (sim.status["attempt"], spent(sim), sim.status["restarts"]["inPlace"]) == (2, 3, 2)
    assert "countedRestarts" not in sim.status, "they belong to the last attempt"
    assert allowed(sim) == 2


@pytest.mark.parametrize(("restarts", "phase"), [(2, "Restarting"), (3, "Failed")])
def test_the_failure_that_ends_an_attempt_adds_to_its_restarts(restarts: int, phase: str) -> None:
    sim = start(backoffLimit=3)
    sim.end_with(Outcome("Application", "TrainFunctionRaised", "no", restarts=restarts, charged_restarts=restarts))
    sim.settle()
    assert sim.status["phase"] == phase


def test_an_attempt_lost_to_the_cluster_keeps_the_budget_its_restarts_spent() -> None:
    sim = start(backoffLimit=3)
    sim.end_with(replace(BEFORE, restarts=2, charged_restarts=2))
    sim.settle()
    sim.later(301)
    sim.settle()
    assert (sim.status["attempt"], spent(sim), allowed(sim)) == (2, 2, 1)


def test_a_hang_is_shown_and_not_charged() -> None:
    sim = start(backoffLimit=0)
    sim.report("RESTARTING", restart=RestartInPlace(1, 0, "Hang", "ProgressDeadlineExceeded", "nothing for 600 s"))
    sim.settle()
    assert spent(sim) == 0 and sim.status["restarts"]["inPlace"] == 1
    assert sim.status["progress"]["restart"]["class"] == "Hang"


def test_restarts_get_a_full_budget_after_enough_training_with_a_newer_checkpoint() -> None:
    sim = start(backoffLimit=3, backoffResetSeconds=6 * 3600)
    for number in range(1, 8):
        sim.later(24 * 3600)
        sim.report(checkpoint=number, restart=replace(RAISED, number=number - 1, charged=number - 1))
        sim.settle()
        sim.report("RESTARTING", checkpoint=number, restart=replace(RAISED, number=number, charged=number))
        sim.settle()
        sim.report(checkpoint=number, restart=replace(RAISED, number=number, charged=number))
        sim.settle()
    assert (spent(sim), sim.status["restarts"]["inPlace"], allowed(sim)) == (1, 7, 9)


def test_the_driver_learns_of_the_full_budget_before_the_next_failure() -> None:
    """Else that failure ends the attempt, however long ago the others were."""
    sim = start(backoffLimit=3, backoffResetSeconds=6 * 3600)
    three = replace(RAISED, number=3, charged=3)
    sim.report("RESTARTING", checkpoint=0, restart=three)
    sim.settle()
    sim.report(checkpoint=0, restart=three)
    sim.settle()
    sim.later(7 * 3600)
    assert allowed(sim) == 3, "nothing was committed since"
    sim.report(checkpoint=1, restart=three)
    sim.settle()
    assert allowed(sim) == 6
    sim.report("RESTARTING", checkpoint=1, restart=replace(RAISED, number=4, charged=4))
    sim.settle()
    assert (spent(sim), sim.status["attempt"], allowed(sim)) == (1, 1, 6)
