"""Which attempt begins, and what restarts in the same pods cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api.status import parse_status
from railhead.contract.outcome import Outcome
from railhead.contract.report import RestartInPlace
from railhead.planning.planner import plan
from tests.unit.builders import SETTINGS, make_observed, make_spec
from tests.unit.planning.simulation import KEY, Simulation
from tests.unit.planning.state import decide

CHECKPOINT = {"uri": "/runs/other/c7", "index": 7, "attempt": 1}
BEST = {"uri": "/runs/other/c3", "index": 3, "attempt": 1}
ENDED = {"conditions": [{"type": "Complete", "status": "True", "reason": "Succeeded"}]}


def decide_with_source(source: dict[str, Any] | None, **resume_from: Any) -> Any:
    spec = make_spec(resumeFrom={"trainJob": "other", **resume_from})
    return decide(spec=spec, source=parse_status(source) if source is not None else None)


def env_of(wanted: Any) -> dict[str, str]:
    [head] = [c.build() for c in wanted.creates if c.kind == "Pod" and c.name.endswith("-head")]
    return {v["name"]: v.get("value", "") for v in head["spec"]["containers"][0]["env"]}


def test_a_source_of_another_operator_is_reported_with_the_selector() -> None:
    settings = replace(SETTINGS, job_selector="team=a")
    wanted = decide(spec=make_spec(resumeFrom={"trainJob": "other"}), settings=settings)
    [event] = wanted.events
    assert event.message == (
        "spec.resumeFrom.trainJob other does not exist, or its labels do not match team=a of this operator; "
        "name another TrainJob in namespace default, or a checkpoint"
    )


@pytest.mark.parametrize(
    ("source", "options", "reason", "message"),
    [
        (None, {}, "SourceNotFound", "spec.resumeFrom.trainJob other does not exist; name another TrainJob in"),
        (ENDED, {"trainJob": "digits"}, "SourceNotFound", "spec.resumeFrom.trainJob digits is this job itself"),
        ({"checkpoint": CHECKPOINT}, {}, "SourceStillRuns", "trainJob other has not ended; this job starts when it"),
        (ENDED, {}, "SourceHasNoCheckpoint", "trainJob other has ended without a checkpoint in its status"),
        (
            {**ENDED, "checkpoint": CHECKPOINT},
            {"best": True},
            "SourceHasNoCheckpoint",
            "(run.checkpoint.scoreAttribute",
        ),
    ],
)
def test_a_job_without_a_source_creates_no_pods_and_reports_why(
    source: dict[str, Any] | None, options: dict[str, Any], reason: str, message: str
) -> None:
    wanted = decide_with_source(source, **options)
    assert not wanted.creates and wanted.wake_at is not None and wanted.status is not None
    [condition] = [c for c in wanted.status.fields["conditions"] if c["status"] == "True"]
    assert (condition["type"], condition["reason"]) == ("Stalled", reason)
    assert message in condition["message"]
    assert [event.reason for event in wanted.events] == [reason]
    again = make_observed(
        status=wanted.status.fields, spec=make_spec(resumeFrom={"trainJob": "other", **options}),
        source=parse_status(source) if source is not None else None,
    )  # fmt: skip
    assert (plan(again).status, plan(again).events) == (None, ()), "reported once"


@pytest.mark.parametrize(("options", "uri"), [({}, CHECKPOINT["uri"]), ({"best": True}, BEST["uri"])])
def test_an_ended_source_provides_its_checkpoint(options: dict[str, Any], uri: str) -> None:
    wanted = decide_with_source({**ENDED, "checkpoint": CHECKPOINT, "bestCheckpoint": BEST}, **options)
    assert wanted.status.fields["initialCheckpoint"] == {"uri": uri, "trainJob": "other"}
    assert env_of(wanted)["RAILHEAD_RESUME_FROM"] == uri
    assert not [c for c in wanted.status.fields["conditions"] if c["type"] == "Stalled"]


def test_a_failed_source_provides_its_checkpoint_too() -> None:
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "X"}], "checkpoint": CHECKPOINT}
    assert decide_with_source(failed).creates


def test_later_attempts_keep_the_first_source() -> None:
    sim = Simulation(resumeFrom={"checkpoint": "s3://b/other/c7"})
    sim.run_until_training()
    assert sim.status["initialCheckpoint"] == {"uri": "s3://b/other/c7", "trainJob": ""}
    sim.apply(resumeFrom={"trainJob": "other"})
    sim.end_head("Infrastructure")
    sim.reconcile()
    sim.later(60)
    sim.reconcile()
    assert sim.status["attempt"] == 2
    assert env_of(sim.last)["RAILHEAD_RESUME_FROM"] == "s3://b/other/c7"


def test_a_job_without_resume_from_has_neither_field_nor_variable() -> None:
    wanted = decide()
    assert wanted.status is not None
    assert "initialCheckpoint" not in wanted.status.fields and "RAILHEAD_RESUME_FROM" not in env_of(wanted)


def test_a_stalled_job_starts_once_the_source_has_ended() -> None:
    first = decide_with_source({"checkpoint": CHECKPOINT})
    observed = make_observed(
        status=first.status.fields, spec=make_spec(resumeFrom={"trainJob": "other"}),
        source=parse_status({**ENDED, "checkpoint": CHECKPOINT}),
    )  # fmt: skip
    wanted = plan(replace(observed, now=first.wake_at))
    assert wanted.creates and wanted.status is not None
    assert "Stalled" not in [c["type"] for c in wanted.status.fields["conditions"]]


def test_a_job_created_suspended_starts_from_the_source_too() -> None:
    status = {"phase": "Suspended", "attempt": 0, "round": 0}
    spec = make_spec(resumeFrom={"trainJob": "other"})
    stalled = decide(spec=spec, status=status, source=parse_status({"checkpoint": CHECKPOINT}))
    assert not stalled.creates and stalled.status is not None
    reasons = [c["reason"] for c in stalled.status.fields["conditions"] if c["status"] == "True"]
    assert reasons == ["SourceStillRuns"]
    started = decide(spec=spec, status=status, source=parse_status({**ENDED, "checkpoint": CHECKPOINT}))
    assert started.status is not None and env_of(started)["RAILHEAD_RESUME_FROM"] == CHECKPOINT["uri"]
    assert started.status.fields["initialCheckpoint"] == {"uri": CHECKPOINT["uri"], "trainJob": "other"}


RAISED = RestartInPlace(1, 1, "Application", "TrainFunctionRaised", "rank 1: ValueError: no")
BEFORE = Outcome("Infrastructure", "RayTrainFailed", "gone")


def allowed(sim: Simulation) -> int:
    """As the answer to a report says."""
    facts = sim.operator.state.find_facts(KEY)
    assert facts is not None
    assert facts.answer.restarts_in_place is not None
    return facts.answer.restarts_in_place


def start(**spec: Any) -> Simulation:
    sim = Simulation(**spec)
    sim.run_until_training()
    return sim


def spent(sim: Simulation) -> int:
    return int((sim.status.get("restarts") or {}).get("application", 0))


def test_a_restart_in_place_costs_one_failure_and_no_pod() -> None:
    sim = start(backoffLimit=3)
    assert allowed(sim) == 3
    pods = set(sim.pods)
    sim.report("RESTARTING", restart=RAISED)
    sim.settle()
    assert set(sim.pods) == pods and sim.status["attempt"] == 1
    assert sim.losses["inPlace"] == 1
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
    assert (sim.status["attempt"], spent(sim), sim.losses["inPlace"]) == (2, 3, 2)
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
    assert spent(sim) == 0 and sim.losses["inPlace"] == 1
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
    assert (spent(sim), sim.losses["inPlace"], allowed(sim)) == (1, 7, 9)


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
