"""The pod and node that the driver suspects are in the status, if the pod is the job's own."""

from __future__ import annotations

import pytest

from railhead.contract.outcome import Outcome
from railhead.contract.report import ReportedOutcome
from tests.unit.planning.simulation import NODE, Simulation


def find_worker(sim: Simulation) -> str:
    return next(name for name in sim.pods if not name.endswith("-head"))


def test_the_suspect_comes_from_the_termination_message() -> None:
    sim = Simulation()
    sim.run_until_training()
    suspect = find_worker(sim)
    sim.end_with(Outcome("Hardware", "GPUFailed", "rank 1: ECC", suspect_pod=suspect))
    sim.settle()
    failure = sim.status["failure"]
    assert (failure["class"], failure["reason"]) == ("Hardware", "GPUFailed")
    assert (failure["suspectPod"], failure["suspectNode"]) == (suspect, NODE)
    assert failure["pod"].endswith("-head"), "where the failure was observed"


def test_the_suspect_comes_from_the_last_report_if_the_head_is_gone() -> None:
    sim = Simulation()
    sim.run_until_training()
    suspect = find_worker(sim)
    sim.report(state="ERRORED", outcome=ReportedOutcome("Hardware", "GPUFailed", "rank 1: ECC", suspect_pod=suspect))
    sim.lose(sim.head.name)
    sim.settle()
    assert (sim.status["failure"]["suspectPod"], sim.status["failure"]["suspectNode"]) == (suspect, NODE)


@pytest.mark.parametrize("name", ["", "somebody-elses-pod"])
def test_a_pod_that_is_not_the_jobs_is_not_suspected(name: str) -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_with(Outcome("Hardware", "GPUFailed", "rank 1: ECC", suspect_pod=name))
    sim.settle()
    assert (sim.status["failure"]["suspectPod"], sim.status["failure"]["suspectNode"]) == ("", "")


def test_broken_hardware_spends_no_backoff_limit_and_is_bounded_without_a_checkpoint() -> None:
    sim = Simulation(backoffLimit=0, noProgressLimit=1)
    for _ in range(2):
        sim.run_until_training()
        sim.end_with(Outcome("Hardware", "GPUFailed", "rank 1: ECC"))
        sim.settle()
        sim.later(30)
        sim.settle()
    assert "budget" not in sim.status
    assert sim.status["phase"] == "Failed" and sim.status["attempt"] == 2
