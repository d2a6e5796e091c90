"""CheckpointCommitted: the first at once, then at most one a minute, and the last one when the job ends."""

from __future__ import annotations

from tests.unit.planning.simulation import Simulation

REASON = "CheckpointCommitted"


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
    assert sim.reconcile().announced == 5
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
