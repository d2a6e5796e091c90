"""Conditions: which are always present, and their size."""

from __future__ import annotations

import json

from railhead.api.conditions import ALWAYS_PRESENT
from railhead.contract.times import format_time
from tests.unit.planning.simulation import Simulation

MAX_BYTES = 450  # of the three in each status


def check(sim: Simulation, *true: str) -> None:
    """All are present; these are True."""
    found = {c["type"]: c for c in sim.status["conditions"]}
    assert {type_ for type_ in ALWAYS_PRESENT if found[type_]["status"] == "True"} == set(true)
    absent = [found[type_] for type_ in ALWAYS_PRESENT if type_ not in true]
    assert all(c["status"] == "False" for c in absent)
    assert len(json.dumps(absent, separators=(",", ":"))) <= MAX_BYTES


def test_suspended_complete_and_failed_are_present_from_the_first_pass_to_the_end() -> None:
    sim = Simulation(suspend=True)
    sim.reconcile()
    check(sim, "Suspended")
    sim.apply(suspend=False)
    sim.reconcile()
    check(sim)
    sim.run_until_training()
    check(sim)
    sim.later(60)
    sim.end_head("Application")
    sim.reconcile()
    check(sim)
    sim.later(60)
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.reconcile()
    check(sim, "Complete")


def test_a_failed_job_is_not_complete() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_head("Configuration")
    sim.reconcile()
    check(sim, "Failed")


def test_an_invalid_job_or_one_without_a_source_is_neither_complete_nor_failed() -> None:
    for spec in ({"resumeFrom": {"trainJob": "nobody"}}, {"image": ""}):
        sim = Simulation(**spec)
        sim.reconcile()
        check(sim)


def test_a_false_condition_has_its_transition_time() -> None:
    sim = Simulation()
    began = format_time(sim.now)
    sim.run_until_training()
    sim.later(600)
    sim.apply(suspend=True)
    sim.settle()
    times = {c["type"]: c["lastTransitionTime"] for c in sim.status["conditions"]}
    assert times["Complete"] == began and times["Suspended"] != began


def test_only_the_time_between_suspension_and_resumption_counts_as_suspended() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.later(600)
    for expected in (100, 200):
        sim.apply(suspend=True)
        sim.settle()
        sim.later(100)
        sim.apply(suspend=False)
        sim.run_until_training()
        assert sim.status["suspendedSeconds"] == expected
        sim.later(500)
