"""status.attempts: the last ten attempts and how each ended, in writes that happen anyway, below 4 kB."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from railhead.api.attempts import Attempt
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.contract.report import ReportedOutcome
from railhead.contract.text import clean_line
from railhead.planning import planner
from railhead.planning.amendments.attempt_list import list_attempts
from railhead.planning.pod_view import PodView
from tests.model.oracles import check_attempts
from tests.unit.builders import RUNNING_STATUS, make_attempt, make_head, make_worker
from tests.unit.planning.simulation import JOB, Simulation
from tests.unit.planning.state import decide

WIDEST: dict[str, Any] = {
    "number": 2**31 - 1,
    "generation": 2**63 - 1,
    **dict.fromkeys(("startTime", "runningTime", "completionTime"), "2026-01-01T12:00:00Z"),
    "class": "c" * 24,
    "reason": "r" * 64,
    "node": "n" * 96,
    "rounds": 2**31 - 1,
}


def attempts_of(sim: Simulation) -> list[dict[str, Any]]:
    check_attempts(sim.api.log)
    attempts: list[dict[str, Any]] = sim.status["attempts"]
    return attempts


def ends_of(sim: Simulation) -> list[str]:
    return [each["class"] for each in attempts_of(sim)]


def fail(sim: Simulation, kind: str) -> None:
    """The attempt trains for a minute, fails, and the next one trains."""
    sim.later(60)
    sim.end_head(kind)
    sim.settle()
    sim.later(400)
    sim.run_until_training()


def change(sim: Simulation, **spec: Any) -> None:
    sim.api.patch(JOB, {"spec": spec})
    sim.settle()


def measure(attempts: list[dict[str, Any]]) -> int:
    """Bytes as the API server stores them."""
    return len(json.dumps(attempts, separators=(",", ":"), ensure_ascii=False).encode())


def test_an_attempt_is_listed_from_its_beginning_to_its_end() -> None:
    sim = Simulation()
    sim.settle()
    blank = {"class": "", "reason": "", "node": "", "rounds": 0}
    first = {"number": 1, "generation": 1, "startTime": "2026-01-01T12:00:00Z", **blank}
    assert attempts_of(sim) == [first]
    sim.later(90)
    sim.run_until_training()
    first["runningTime"] = "2026-01-01T12:01:30Z"
    assert attempts_of(sim) == [first]
    sim.later(90)
    sim.end_head("Application")
    sim.settle()
    end = {"class": "Application", "reason": "Application", "node": "node-1"}
    first |= {"completionTime": "2026-01-01T12:03:00Z", **end}
    assert attempts_of(sim) == [first]
    sim.later(400)
    sim.settle()
    assert attempts_of(sim) == [first, {"number": 2, "generation": 1, "startTime": "2026-01-01T12:09:40Z", **blank}]


def test_the_list_has_the_last_ten_attempts_the_oldest_first() -> None:
    sim = Simulation(backoffLimit=20, noProgressLimit=20)
    sim.run_until_training()
    for kind in 6 * ["Application", "Infrastructure"]:
        fail(sim, kind)
    assert [each["number"] for each in attempts_of(sim)] == list(range(4, 14))
    assert ends_of(sim) == [*4 * ["Infrastructure", "Application"], "Infrastructure", ""]


@pytest.mark.parametrize("kind", ["Fenced", "Hang"])
def test_an_attempt_that_no_budget_counts_is_listed_too(kind: str) -> None:
    rule = {"action": "RestartAndIgnore", "onClass": ["Hang"]}
    sim = Simulation(failurePolicy={"rules": [rule]})
    sim.run_until_training()
    fail(sim, kind)
    assert ends_of(sim) == [kind, ""]


def test_an_attempt_counts_its_rounds() -> None:
    sim = Simulation()
    sim.run_until_training()
    for round_ in (1, 2):
        sim.later(60)
        sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
        sim.run_until_training()
        assert [each["rounds"] for each in attempts_of(sim)] == [round_]
    fail(sim, "Infrastructure")
    assert [each["rounds"] for each in attempts_of(sim)] == [2, 0]


def test_a_suspension_ends_the_attempt_and_the_next_one_has_the_changed_spec() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.later(60)
    change(sim, suspend=True)
    assert ends_of(sim) == ["Suspended"]
    sim.later(3600)
    change(sim, image="example/train:2")
    change(sim, suspend=False)
    first, second = attempts_of(sim)
    assert (first["generation"], second["generation"]) == (1, 4)
    assert first["completionTime"] == "2026-01-01T12:01:00Z" and second["startTime"] == "2026-01-01T13:01:00Z"


def test_a_suspension_leaves_the_end_of_a_lost_attempt_as_it_is() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_head("Application")
    sim.settle()
    change(sim, suspend=True)
    assert sim.status["phase"] == "Suspended" and ends_of(sim) == ["Application"]


def test_the_active_deadline_ends_an_attempt_but_not_one_that_is_lost() -> None:
    for is_lost, kind in ((False, "DeadlineExceeded"), (True, "Infrastructure")):
        sim = Simulation(activeDeadlineSeconds=100)
        sim.run_until_training()
        sim.later(99)
        if is_lost:
            sim.end_head("Infrastructure")
            sim.settle()
        sim.later(1)
        sim.settle()
        assert sim.status["failure"]["class"] == "DeadlineExceeded" and ends_of(sim) == [kind]


def test_a_success_that_only_the_last_report_has_ends_the_attempt() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report("FINISHED", outcome=ReportedOutcome(SUCCEEDED))
    sim.lose(sim.head.name)
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and ends_of(sim) == [SUCCEEDED]


def test_an_attempt_does_not_end_before_it_began_whatever_the_clock_of_the_heads_node() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.later(-3600)
    sim.end_head(SUCCEEDED)
    sim.later(3601)
    sim.settle()
    [attempt] = attempts_of(sim)
    assert sim.status["completionTime"] < attempt["completionTime"] == attempt["runningTime"]


def test_an_attempt_that_was_lost_while_no_operator_ran_ends_when_one_sees_it() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.lose(sim.head.name)
    sim.later(600)
    sim.restart()
    sim.settle()
    first = attempts_of(sim)[0]
    assert (first["class"], first["reason"], first["completionTime"]) == (
        "Infrastructure",
        "PodGone",
        "2026-01-01T12:10:00Z",
    )


def drop(sim: Simulation) -> None:
    sim.edit_status(attempts=None)


def spoil(sim: Simulation) -> None:
    sim.edit_status(attempts=[{**sim.status["attempts"][0], "rounds": "many"}])


def outdate(sim: Simulation) -> None:
    """An operator that does not know the list has lost attempts."""
    sim.edit_status(attempts=[make_attempt(completionTime="2026-01-01T12:01:00Z", **{"class": "Application"})])


@pytest.mark.parametrize("edit", [drop, spoil, outdate])
def test_a_list_that_another_version_wrote_starts_with_the_current_attempt(edit: Callable[[Simulation], None]) -> None:
    sim = Simulation(backoffLimit=9)
    sim.run_until_training()
    fail(sim, "Application")
    fail(sim, "Application")
    edit(sim)
    sim.later(60)
    sim.restart()
    sim.settle()
    assert sim.count_status_writes() == 0, "the list alone is worth no write"
    sim.end_head("Application")
    sim.settle()
    sim.later(400)
    sim.settle()
    assert [each["number"] for each in sim.status["attempts"]] == [3, 4]
    third, fourth = sim.status["attempts"]
    assert (third["generation"], third["class"]) == (0, "Application")
    assert "startTime" not in third and third["runningTime"] < third["completionTime"] < fourth["startTime"]


@pytest.mark.parametrize("phase", ["Restarting", "Suspended"])
def test_an_end_that_another_version_wrote_is_listed_when_the_next_attempt_begins(phase: str) -> None:
    sim = Simulation()
    sim.run_until_training()
    if phase == "Suspended":
        change(sim, suspend=True)
    else:
        sim.end_head("Application")
        sim.settle()
    [before] = attempts_of(sim)
    begun = {key: value for key, value in before.items() if key != "completionTime"} | {"class": "", "reason": ""}
    sim.edit_status(attempts=[{**begun, "node": ""}])
    sim.later(400)
    change(sim, suspend=False)
    assert sim.status["attempts"][0] == before


def test_a_status_that_was_set_back_has_the_attempt_that_its_pods_are_of() -> None:
    sim = Simulation(backoffLimit=9)
    sim.run_until_training()
    fail(sim, "Application")
    fail(sim, "Application")
    sim.edit_status(attempt=1)
    sim.settle()
    assert [each["number"] for each in sim.status["attempts"]] == [3]


def play(sim: Simulation) -> None:
    """Losses, rounds, a suspension, success."""
    sim.run_until_training()
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    sim.run_until_training()
    fail(sim, "Application")
    fail(sim, "Infrastructure")
    change(sim, suspend=True)
    change(sim, suspend=False)
    sim.run_until_training()
    sim.end_head(SUCCEEDED)
    sim.settle()


def test_the_list_costs_no_status_write(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation()
    play(sim)
    assert ends_of(sim) == ["Application", "Infrastructure", "Suspended", SUCCEEDED]
    others = tuple(amend for amend in planner.AMENDMENTS if amend is not list_attempts)
    monkeypatch.setattr(planner, "AMENDMENTS", others)
    plain = Simulation()
    play(plain)
    assert sim.count_status_writes() == plain.count_status_writes()


def test_a_pass_that_writes_nothing_else_does_not_write_the_list() -> None:
    status = {**RUNNING_STATUS, "attempts": None}
    assert decide(make_head(), make_worker(0), make_worker(1), status=status).status is None


def test_the_bounds_of_the_list_keep_it_below_4_kb() -> None:
    assert Attempt.model_validate(WIDEST).class_
    assert measure(10 * [WIDEST]) <= 4096
    for field, value in WIDEST.items():
        wider = f"{value}x" if isinstance(value, str) else -1
        with pytest.raises(ValidationError, match=field):
            Attempt.model_validate({**WIDEST, field: wider})
    for field in ("class", "reason", "node"):
        with pytest.raises(ValidationError, match=field):
            Attempt.model_validate({**WIDEST, field: "<"})


def lose(head: PodView, *, node: str, reason: str) -> list[dict[str, Any]]:
    """The list after the loss of a tenth attempt, all of them as wide as can be."""
    before = [{**WIDEST, "number": number} for number in range(1, 10)]
    status = {**RUNNING_STATUS, "attempt": 10, "head": {"pod": head.name}, "attempts": before}
    status["progress"] = {"attempt": 10, "state": "RUNNING"}
    lost = replace(head, node=node, phase="Failed", is_running=False, exit_code=1, reason=reason)
    wanted = decide(lost, status=status)
    assert wanted.status is not None and wanted.status.fields["failure"]["reason"] == clean_line(reason[:128])
    attempts: list[dict[str, Any]] = wanted.status.fields["attempts"]
    return attempts


@given(st.text(min_size=1, max_size=200), st.text(max_size=253))
def test_no_text_of_a_failure_breaks_the_bounds(reason: str, node: str) -> None:
    attempts = lose(make_head(10), node=node, reason=reason)
    assert len(attempts) == 10 and measure(attempts) <= 4096
    assert [Attempt.model_validate(each).class_ for each in attempts[-1:]] == ["Infrastructure"]


@pytest.mark.parametrize("is_known", [True, False])
def test_the_node_is_that_of_the_suspect_or_of_the_pod_where_the_failure_was_observed(is_known: bool) -> None:
    sim = Simulation()
    sim.settle()
    suspect = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.api.bind(suspect, "node-7", namespace="default")
    sim.run_until_training()
    sim.end_with(Outcome("Hardware", "GPUFailed", "rank 1: ECC", suspect_pod=suspect if is_known else ""))
    sim.settle()
    assert attempts_of(sim)[0]["node"] == ("node-7" if is_known else "node-1")
