"""A slow rank has one event for each time that it becomes slow, whatever else happens to the job."""

from __future__ import annotations

from railhead.contract.report import SlowRank
from tests.unit.planning.simulation import Simulation

REASON = "SlowRank"
SINCE, LATER = "2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z"


def make_simulation() -> Simulation:
    sim = Simulation()
    sim.run_until_training()
    return sim


def slow_ranks(sim: Simulation, *ranks: int, since: str = SINCE, score: str = "0.68") -> None:
    pod = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.report(slow_ranks=tuple(SlowRank(rank, pod, score, since) for rank in ranks))
    sim.settle()


def messages(sim: Simulation) -> list[str]:
    posted = [entry.object for entry in sim.api.log if entry.plural == "events"]
    return [each["message"] for each in posted if each["reason"] == REASON]


def test_it_names_rank_pod_node_and_score_once() -> None:
    sim = make_simulation()
    slow_ranks(sim, 3)
    pod = next(pod for pod in sim.pods.values() if pod.slot == 1)
    assert pod.node
    assert messages(sim) == [
        f"Rank 3 in pod {pod.name} on node {pod.node} has computed at 0.68 of the median rank's pace, or of its own "
        f"best, since {SINCE}"
    ]
    [shown] = sim.status["progress"]["slowRanks"]
    assert shown == {"rank": 3, "pod": pod.name, "node": pod.node, "score": "0.68", "since": SINCE}
    slow_ranks(sim, 3, score="0.61")
    sim.later(3600)
    sim.settle()
    assert sim.events.count(REASON) == 1


def test_another_rank_and_another_spell_have_their_own() -> None:
    sim = make_simulation()
    slow_ranks(sim, 3)
    slow_ranks(sim, 3, 4)
    assert sim.events.count(REASON) == 2
    slow_ranks(sim)
    assert "slowRanks" not in sim.status["progress"] and sim.events.count(REASON) == 2
    slow_ranks(sim, 3, since=LATER)
    assert sim.events.count(REASON) == 3


def test_an_operator_that_starts_announces_only_what_is_new() -> None:
    sim = make_simulation()
    slow_ranks(sim, 3)
    sim.restart()
    sim.settle()
    assert sim.events.count(REASON) == 1
    slow_ranks(sim, 3, 4)
    assert sim.events.count(REASON) == 2


def test_a_commit_and_a_slow_rank_at_once_are_both_announced() -> None:
    sim = make_simulation()
    sim.report(checkpoint=0, slow_ranks=(SlowRank(3, "w", "0.5", SINCE),))
    sim.settle()
    assert {REASON, "CheckpointCommitted"} <= set(sim.events)
    assert sim.announced is not None
    assert (sim.announced.index, sim.announced.slow_ranks) == (0, frozenset({(3, SINCE)}))


def test_it_changes_nothing_but_the_status() -> None:
    sim = make_simulation()
    before = (sorted(sim.pods), sim.status["phase"], sim.status["conditions"])
    slow_ranks(sim, 0, 1, 2, 3)
    assert (sorted(sim.pods), sim.status["phase"], sim.status["conditions"]) == before
