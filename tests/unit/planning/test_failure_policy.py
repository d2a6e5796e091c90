"""spec.failurePolicy: the first rule that matches the failure of an attempt decides what follows."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.contract.outcome import Outcome
from railhead.contract.report import ReportedOutcome
from tests.unit.planning.simulation import Simulation

NO_BUDGET: dict[str, Any] = {"backoffLimit": 0, "noProgressLimit": 0, "disruptionLimit": 0}


def make_rules(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"failurePolicy": {"rules": list(rules)}}


def find_message(sim: Simulation, type_: str) -> str:
    return str(next(c["message"] for c in sim.status["conditions"] if c["type"] == type_ and c["status"] == "True"))


def lose(sim: Simulation, kind: str, *, reason: str = "Lost", code: int | None = None) -> None:
    sim.run_until_training()
    sim.end_with(Outcome(kind, reason, "because", process_exit_code=code))
    sim.settle()


def wait_for_attempt(sim: Simulation) -> float:
    """Seconds from the loss until the next one starts."""
    lost, began = sim.status["failure"]["attempt"], sim.now
    while sim.status["attempt"] == lost:
        sim.later(1)
        sim.settle()
        assert (sim.now - began).total_seconds() < 400
    return (sim.now - began).total_seconds()


CODES = {"operator": "In", "values": [3, 42]}
MATCHES = [
    ({"onExitCodes": CODES}, {"code": 42}, True),
    ({"onExitCodes": CODES}, {"code": 1}, False),
    ({"onExitCodes": CODES}, {}, False),
    ({"onExitCodes": {**CODES, "operator": "NotIn"}}, {"code": 1}, True),
    ({"onExitCodes": {**CODES, "operator": "NotIn"}}, {"code": 3}, False),
    ({"onExitCodes": {**CODES, "operator": "NotIn"}}, {}, False),
    ({"onExitCodes": {"operator": "In", "values": [64]}}, {}, False),  # the head's own code
    ({"onReason": ["Other", "TrainFunctionRaised"]}, {"reason": "TrainFunctionRaised"}, True),
    ({"onReason": ["TrainFunctionRaised"]}, {"reason": "TrainingProcessDied"}, False),
    ({"onClass": ["Hang", "Application"]}, {}, True),
    ({"onClass": ["Hang"]}, {}, False),
]


@pytest.mark.parametrize(("rule", "options", "is_match"), MATCHES)
def test_a_rule_matches(rule: dict[str, Any], options: dict[str, Any], is_match: bool) -> None:
    sim = Simulation(**make_rules({"action": "Fail", **rule}))
    lose(sim, "Application", **options)
    assert sim.status["phase"] == ("Failed" if is_match else "Restarting")
    assert sim.status["failure"]["action"] == ("Fail" if is_match else "")
    assert sim.status["failure"].get("processExitCode") == options.get("code")


def test_a_job_that_a_rule_fails_names_the_rule_and_keeps_its_budget() -> None:
    sim = Simulation(**make_rules({"action": "Restart", "onClass": ["Hang"]}, {"action": "Fail", "onReason": ["Lost"]}))
    lose(sim, "Application")
    assert find_message(sim, "Failed").endswith("(failurePolicy.rules[1]: Fail)")
    assert "budget" not in sim.status


def test_the_first_rule_that_matches_decides() -> None:
    rules = ({"action": "Restart", "onReason": ["Lost"]}, {"action": "Fail", "onClass": ["Application"]})
    sim = Simulation(**make_rules(*rules))
    lose(sim, "Application")
    wait_for_attempt(sim)
    assert sim.status["budget"]["failures"] == 1, "as without a rule"
    lose(sim, "Application", reason="Another")
    assert sim.status["phase"] == "Failed"


@pytest.mark.parametrize(
    "kind", ["Application", "OutOfMemory", "Infrastructure", "Hang", "Preemption", "Configuration"]
)
def test_ignored_failures_spend_no_budget_and_back_off_longer_each_time(kind: str) -> None:
    sim = Simulation(**NO_BUDGET, **make_rules({"action": "RestartAndIgnore", "onClass": [kind]}))
    waits = []
    for _ in range(4):
        lose(sim, kind)
        waits.append(wait_for_attempt(sim))
    assert waits == sorted(waits) and waits[3] >= 4 * waits[0], waits
    assert "budget" not in sim.status
    assert sim.status["disruptions"] == {"total": 0, "attempts": 4, "byKubelet": 0}
    assert sim.status["restarts"]["withoutProgress"] == 0
    sim.run_until_training()
    sim.report(checkpoint=0)
    lose(sim, kind)
    assert wait_for_attempt(sim) <= waits[0], "a new checkpoint resets the backoff"


def test_a_failure_that_no_rule_ignores_still_counts() -> None:
    sim = Simulation(backoffLimit=0, **make_rules({"action": "RestartAndIgnore", "onReason": ["Flaky"]}))
    lose(sim, "Application", reason="Flaky")
    wait_for_attempt(sim)
    lose(sim, "Application", reason="Bug")
    assert sim.status["phase"] == "Failed"
    assert "backoffLimit 0 is reached" in find_message(sim, "Failed")


def test_a_configuration_error_may_be_retried_within_a_limit() -> None:
    sim = Simulation(noProgressLimit=1, **make_rules({"action": "Restart", "onClass": ["Configuration"]}))
    lose(sim, "Configuration")
    wait_for_attempt(sim)
    lose(sim, "Configuration")
    assert sim.status["phase"] == "Failed"
    assert "noProgressLimit 1" in find_message(sim, "Failed")


def test_a_rule_may_fail_a_job_that_starts_too_slowly() -> None:
    sim = Simulation(startDeadlineSeconds=60, **make_rules({"action": "Fail", "onClass": ["Startup"]}))
    sim.settle()
    sim.later(61)
    sim.settle()
    assert sim.status["phase"] == "Failed" and sim.status["failure"]["reason"] == "StartDeadlineExceeded"


def test_no_rule_restarts_a_job_after_its_own_deadline() -> None:
    rule = {"action": "RestartAndIgnore", "onReason": ["ActiveDeadlineExceeded"]}
    sim = Simulation(activeDeadlineSeconds=60, **make_rules(rule))
    sim.run_until_training()
    sim.later(61)
    sim.settle()
    assert sim.status["phase"] == "Failed"


def test_a_rule_added_later_does_not_change_an_earlier_decision() -> None:
    sim = Simulation(backoffLimit=1)
    lose(sim, "Application")
    sim.apply(**make_rules({"action": "RestartAndIgnore", "onClass": ["Application"]}))
    wait_for_attempt(sim)
    assert sim.status["budget"]["failures"] == 1


def test_the_last_report_has_the_exit_code_of_a_head_that_is_gone() -> None:
    sim = Simulation(**make_rules({"action": "Fail", "onExitCodes": CODES}))
    sim.run_until_training()
    sim.report(state="ERRORED", outcome=ReportedOutcome("Application", "ScriptFailed", "no", 42))
    sim.lose(sim.head.name)
    sim.settle()
    assert sim.status["phase"] == "Failed" and sim.status["failure"]["processExitCode"] == 42
