"""A driver's warning becomes a condition, which stays while the warning does, and one event. CheckpointCommitted comes
for the first commit at once, then at most once a minute, and for the last one when the job ends.
"""

from __future__ import annotations

from dataclasses import asdict

import pytest

from railhead.contract.outcome import Outcome
from railhead.contract.report import RunWarning, State
from railhead.planning.observed import Announced
from tests.unit.planning.simulation import Simulation

WARNING = RunWarning("RunNameDiffers", "the name is another one")
REASON = "CheckpointCommitted"


def warn(sim: Simulation, state: State = "RUNNING") -> None:
    sim.report(state, warning=WARNING)
    sim.settle()


def find_resumable(sim: Simulation) -> list[tuple[str, str, str]]:
    return [(c["status"], c["reason"], c["message"]) for c in sim.status["conditions"] if c["type"] == "Resumable"]


REPORTED = [("False", WARNING.reason, WARNING.message)]


def test_a_warning_is_a_condition_and_one_event() -> None:
    sim = Simulation()
    sim.run_until_training()
    assert find_resumable(sim) == []
    before = len(sim.events)
    warn(sim)
    assert find_resumable(sim) == REPORTED
    assert len(sim.events) == before + 1
    warn(sim)
    assert len(sim.events) == before + 1
    assert sim.status["phase"] == "Running" and sim.check_condition("Running")


def test_it_survives_a_new_attempt_until_its_driver_reports_otherwise() -> None:
    sim = Simulation()
    sim.run_until_training()
    warn(sim)
    sim.report(checkpoint=0, warning=WARNING)
    sim.end_head("Infrastructure")
    sim.settle()
    sim.start_pods()
    sim.settle()
    assert sim.status["attempt"] == 2 and find_resumable(sim) == REPORTED
    before = len(sim.events)
    sim.report("STARTING")
    sim.settle()
    assert find_resumable(sim) == REPORTED
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running" and find_resumable(sim) == []
    assert len(sim.events) == before + 1  # it runs again


def test_the_end_keeps_the_condition_and_records_a_missing_event() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(warning=WARNING)
    before = len(sim.events)
    sim.end_head("Succeeded")
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and find_resumable(sim) == REPORTED
    assert len(sim.events) == before + 2
    assert sim.status["progress"]["warning"] == asdict(WARNING)


def test_a_warning_of_the_last_moment_is_in_the_termination_message() -> None:
    """A job of seconds ends before its last report has had its turn to be written."""
    sim = Simulation()
    sim.run_until_training()
    sim.end_with(Outcome("Succeeded", warning=WARNING))
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and find_resumable(sim) == REPORTED
    assert sim.status["progress"]["warning"] == asdict(WARNING)


def test_a_malformed_warning_of_a_termination_message_is_left_out() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_with(Outcome("Succeeded", warning=RunWarning("no reason", "x")))
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and "warning" not in sim.status["progress"]


def test_an_unrelated_status_write_records_it_too() -> None:
    sim = Simulation()
    sim.settle()
    sim.start_pods()
    before = len(sim.events)
    warn(sim, "SCHEDULING")
    assert sim.status["phase"] == "Starting" and find_resumable(sim) == REPORTED
    assert len(sim.events) == before + 1


def test_a_ray_that_cannot_request_a_last_checkpoint_has_its_own_condition() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(warning=RunWarning("EndNotAnnounced", "Ray 2.57 cannot"))
    sim.settle()
    found = [c for c in sim.status["conditions"] if c["type"] == "EndNotice"]
    assert [(c["status"], c["reason"], c["message"]) for c in found] == [
        ("False", "EndNotAnnounced", "Ray 2.57 cannot")
    ]
    assert find_resumable(sim) == [] and sim.events[-1] == "EndNotAnnounced"


def test_lost_checkpoints_have_their_own_condition() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=3, warning=RunWarning("CheckpointMissing", "c2 is gone; it goes on from c1"))
    sim.settle()
    found = [c for c in sim.status["conditions"] if c["type"] == "CheckpointFallback"]
    assert [(c["status"], c["reason"], c["message"]) for c in found] == [
        ("True", "CheckpointMissing", "c2 is gone; it goes on from c1")
    ]
    assert find_resumable(sim) == [] and sim.events[-1] == "CheckpointMissing"
    sim.settle()
    assert sim.events.count("CheckpointMissing") == 1


def test_ranks_without_steps_are_a_condition_until_they_step() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(warning=RunWarning("NoSteps", "rank 1 is at t.py:4"))
    sim.settle()
    found = [c for c in sim.status["conditions"] if c["type"] == "HangSuspected"]
    assert [(c["status"], c["reason"], c["message"]) for c in found] == [("True", "NoSteps", "rank 1 is at t.py:4")]
    assert sim.status["phase"] == "Running" and sim.events[-1] == "NoSteps"
    sim.report()
    sim.settle()
    assert "HangSuspected" not in {c["type"] for c in sim.status["conditions"]}


def test_a_metric_rule_that_warns_is_a_condition_and_one_that_cannot_fire_is_a_false_one() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(warning=RunWarning("MetricMissing", "rule nan: no report so far has a number in 'lss'"))
    sim.settle()
    assert find_metric_rules(sim) == [("False", "MetricMissing", "rule nan: no report so far has a number in 'lss'")]
    sim.report(warning=RunWarning("MetricRule", "rule nan: loss is NaN at step 3"))
    sim.settle()
    assert find_metric_rules(sim) == [("True", "MetricRule", "rule nan: loss is NaN at step 3")]
    assert sim.status["phase"] == "Running" and sim.events[-1] == "MetricRule" and "MetricMissing" in sim.events
    sim.report()
    sim.settle()
    assert find_metric_rules(sim) == []


def find_metric_rules(sim: Simulation) -> list[tuple[str, str, str]]:
    conditions = [c for c in sim.status["conditions"] if c["type"] == "MetricRuleFired"]
    return [(c["status"], c["reason"], c["message"]) for c in conditions]


def test_failing_storage_is_a_condition_until_a_checkpoint_commits() -> None:
    sim = Simulation()
    sim.run_until_training()
    for reason in ("CheckpointNotWritten", "StorageUnreachable", "StorageNotShared"):
        sim.report("RESTARTING", warning=RunWarning(reason, "rank 3: /runs/digits: No space left on device"))
        sim.settle()
        found = [c for c in sim.status["conditions"] if c["type"] == "StorageUnavailable"]
        assert [(c["status"], c["reason"], c["message"]) for c in found] == [
            ("True", reason, "rank 3: /runs/digits: No space left on device")
        ]
        assert find_resumable(sim) == [] and sim.events.count(reason) == 1
    sim.report(checkpoint=0)
    sim.settle()
    assert "StorageUnavailable" not in {c["type"] for c in sim.status["conditions"]}
    assert sim.status["phase"] == "Running"


def test_an_attempt_that_waits_for_its_storage_shows_it_and_goes_on() -> None:
    """It waits for a day; the deadline for starts still applies to a job that has one."""
    sim = Simulation(startDeadlineSeconds=100_000)
    sim.settle()
    sim.start_pods()
    sim.settle()
    sim.report("STARTING", warning=RunWarning("StorageUnreachable", "run.storagePath /runs: No space left on device"))
    sim.settle()
    uids = sorted(pod.uid for pod in sim.pods.values())
    for _ in range(24):
        sim.later(3600)
        sim.settle()
        found = [c for c in sim.status["conditions"] if c["type"] == "StorageUnavailable"]
        assert [(c["status"], c["reason"]) for c in found] == [("True", "StorageUnreachable")]
    assert (sim.status["attempt"], sim.status["phase"], sim.status.get("restarts")) == (1, "Starting", None)
    assert sorted(pod.uid for pod in sim.pods.values()) == uids
    assert sim.events.count("StorageUnreachable") == 1
    sim.report("STARTING")
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert "StorageUnavailable" not in {c["type"] for c in sim.status["conditions"]}


def test_the_deadline_for_starts_ends_an_attempt_that_waits_for_its_storage() -> None:
    sim = Simulation(startDeadlineSeconds=3600)
    sim.settle()
    sim.start_pods()
    sim.settle()
    sim.report("STARTING", warning=RunWarning("StorageUnreachable", "run.storagePath /runs: No space left on device"))
    sim.later(3601)
    sim.settle()
    assert sim.status["failure"]["class"] == "Startup"


def commit(sim: Simulation, index: int) -> None:
    sim.report(checkpoint=index)
    sim.settle()


def test_at_most_one_event_a_minute_reports_the_newest_commit() -> None:
    sim = Simulation()
    sim.run_until_training()
    assert REASON not in sim.events
    commit(sim, 0)
    assert sim.events.count(REASON) == 1
    for index in range(1, 6):
        sim.later(10)
        commit(sim, index)
    assert sim.events.count(REASON) == 1
    assert sim.last.wake_at is not None and (sim.last.wake_at - sim.now).total_seconds() == 10
    sim.now = sim.last.wake_at
    assert sim.reconcile().announced == Announced(5, sim.now)
    assert sim.events.count(REASON) == 2
    sim.later(3600)
    sim.settle()
    assert sim.events.count(REASON) == 2, "there is nothing new"


def test_the_last_commit_is_reported_when_the_job_ends() -> None:
    sim = Simulation()
    sim.run_until_training()
    commit(sim, 0)
    sim.end_head("Succeeded", checkpoint={"uri": "/runs/c7", "index": 7, "time": "", "metrics": {}})
    sim.settle()
    assert sim.events[-2:] == [REASON, "Succeeded"]
    assert sim.announced is not None and sim.announced.index == 7


def test_the_last_commit_is_reported_before_suspension() -> None:
    sim = Simulation()
    sim.run_until_training()
    commit(sim, 0)
    commit(sim, 1)
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.events.count(REASON) == 2


def test_commits_from_before_the_operators_start_are_not_reported() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.restart()
    sim.settle()
    assert REASON not in sim.events
    commit(sim, 4)
    assert sim.events.count(REASON) == 1


@pytest.mark.parametrize(
    ("reason", "type_"), [("StorageUnreachable", "StorageUnavailable"), ("NoSteps", "HangSuspected")]
)
@pytest.mark.parametrize("state", ["STARTING", "RUNNING"])
def test_a_success_ends_a_trouble_that_no_report_has_taken_back(state: State, reason: str, type_: str) -> None:
    """The rest of training took less time than it takes to the next report."""
    sim = Simulation()
    sim.settle()
    sim.start_pods()
    sim.settle()
    sim.report(state, warning=RunWarning(reason, "run.storagePath /runs: No space left on device"))
    sim.settle()
    assert sim.check_condition(type_)
    sim.end_head("Succeeded")
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and not sim.check_condition(type_)
