"""Simulated goodput: published rates, closed sums, and cases that can be computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from benchmarks.goodput_simulation import __main__ as program
from benchmarks.goodput_simulation import rules
from benchmarks.goodput_simulation.cluster import PODS_PER_SECOND, REPAIR_SECONDS, Cluster
from benchmarks.goodput_simulation.faults import DAY, HEAD, INTERRUPTIONS, Fault, Kind, plan_faults, rate
from benchmarks.goodput_simulation.rules import GaveUp, Loss, NewPods, Railhead, Rules
from benchmarks.goodput_simulation.run import CHECKPOINT_SECONDS, FAILED, HANG_SECONDS, SECONDS, Run

from railhead.contract.failure import POLICIES, FailureClass
from railhead.planning.facts.avoided_nodes import AVOID_FIRST_SECONDS

PROJECT = Path(__file__).resolve().parents[3]
SLOTS = 64


def make_run(rules: Rules, *faults: Fault, resumes: bool = True, takes_out: bool = False) -> Run:
    chance = Random(1)
    return Run(rules, Cluster(SLOTS, takes_out, chance), faults, chance, resumes=resumes)


def railhead(**limits: int) -> Railhead:
    return Railhead(SLOTS, limits=limits)


def is_one_of(seconds: float, measured: Sequence[float]) -> bool:
    return any(seconds == pytest.approx(each) for each in measured)


def lose(at: float, kind: Kind, *, slot: int = 3, node: str = "node-3", trained: float = 0.0) -> Loss:
    return Loss(Fault(at, kind, slot), node, trained, int(trained // CHECKPOINT_SECONDS))


def test_the_rate_is_the_published_one() -> None:
    assert INTERRUPTIONS == 419
    assert rate(16_384) * 54 * DAY == pytest.approx(419)
    assert rate(512) * SECONDS == pytest.approx(419 / 32 * 30 / 54)


def test_interruptions_come_as_often_as_the_rate_says_and_any_host_may_be_the_heads() -> None:
    faults = plan_faults(16_384, 8, seconds=540 * DAY, chance=Random(1))
    assert len(faults) == pytest.approx(4190, rel=0.05)
    assert [each.at for each in faults] == sorted(each.at for each in faults)
    assert {each.kind for each in faults if each.slot == HEAD} == {Kind.HOST}
    assert all(HEAD <= each.slot < 8 for each in faults)
    assert sum(each.kind is Kind.GPU for each in faults) / len(faults) == pytest.approx(268 / 419, abs=0.03)
    assert faults == plan_faults(16_384, 8, seconds=540 * DAY, chance=Random(1))


@pytest.mark.parametrize("way", program.WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("seed", range(5))
def test_the_seconds_of_all_causes_add_up_to_the_time(way: program.Way, seed: int) -> None:
    chance = Random(seed)
    faults = plan_faults(20_000, 8, seconds=SECONDS, chance=chance)  # so many that they interrupt starts, too
    spent = Run(way.rules(8), Cluster(8, way.takes_out, chance), faults, chance, resumes=way.resumes).play()
    assert sum(spent.values()) == pytest.approx(SECONDS, abs=1e-3)
    assert min(spent.values()) > -1e-6


def test_an_undisturbed_job_only_starts() -> None:
    run = make_run(railhead())
    spent = run.play()
    assert (is_one_of(spent["starting"], rules.FRESH), run.losses) == (True, 0)
    assert SLOTS / PODS_PER_SECOND + 50 < spent["podsPending"] < SLOTS / PODS_PER_SECOND + 200
    assert spent["productive"] == pytest.approx(SECONDS - spent["starting"] - spent["podsPending"])


@pytest.mark.parametrize(("kind", "hanging"), [(Kind.SOFTWARE, 0.0), (Kind.NETWORK, 0.0), (Kind.HANG, HANG_SECONDS)])
def test_a_restart_in_place_costs_the_training_since_the_checkpoint_and_no_new_pods(kind: Kind, hanging: float) -> None:
    start = make_run(railhead()).play()
    began = start["starting"] + start["podsPending"]
    spent = make_run(railhead(), Fault(began + 10_000, kind, 3)).play()
    assert spent["retrained"] == pytest.approx(10_000 % 1800)
    assert spent["podsPending"] == pytest.approx(start["podsPending"])
    assert (spent["hanging"], is_one_of(spent["restoring"], rules.IN_PLACE)) == (hanging, True)


def test_new_pods_each_time_are_scheduled_again() -> None:
    start = make_run(NewPods()).play()
    spent = make_run(NewPods(), Fault(10_000, Kind.SOFTWARE, 3)).play()
    assert spent["podsPending"] >= start["podsPending"] + SLOTS / PODS_PER_SECOND
    assert is_one_of(spent["restoring"], rules.HEAD_LOST + rules.NEW_ATTEMPT)


def test_a_start_from_zero_keeps_only_what_was_trained_since() -> None:
    spent = make_run(NewPods(), Fault(20 * DAY, Kind.SOFTWARE, 3), resumes=False).play()
    assert spent["productive"] == pytest.approx(10 * DAY, abs=300)
    assert spent["retrained"] == pytest.approx(20 * DAY, abs=300)


def test_a_fault_during_a_start_begins_another_one() -> None:
    run = make_run(railhead(), Fault(5.0, Kind.HOST, 3))
    spent = run.play()
    assert (run.losses, spent["retrained"]) == (1, 0)
    assert spent["podsPending"] > 5.0 and spent["starting"] == 0 and is_one_of(spent["restoring"], rules.WORKER_LOST)


def test_railhead_replaces_the_pod_of_a_broken_gpu_and_avoids_its_node_for_a_while() -> None:
    tried = railhead()
    first = tried.respond(lose(10_000, Kind.GPU, trained=9000))
    assert (first.slots, first.avoided, first.delay) == ((3,), ("node-3",), 0)
    later = tried.respond(lose(10_000 + AVOID_FIRST_SECONDS - 1, Kind.HOST, slot=4, node="node-4", trained=1800))
    assert (later.slots, later.avoided) == ((4,), ("node-3",))
    at = 10_000 + AVOID_FIRST_SECONDS + 1
    assert tried.respond(lose(at, Kind.HOST, slot=5, node="node-5", trained=1800)).avoided == ()


def test_railhead_begins_an_attempt_without_delay_only_after_a_checkpoint() -> None:
    first = POLICIES[FailureClass.INFRASTRUCTURE].backoff.first
    for trained, delay in ((0.0, first), (1800.0, 0)):
        found = railhead().respond(lose(10_000, Kind.HOST, slot=HEAD, node="", trained=trained))
        assert (found.slots, found.delay) == (None, delay)


def test_railhead_replaces_all_pods_after_the_same_failure_twice_without_a_checkpoint() -> None:
    tried = railhead()
    assert tried.respond(lose(1000, Kind.NETWORK, trained=900)).slots == ()
    assert tried.respond(lose(2000, Kind.NETWORK, trained=900)).slots is None
    tried = railhead()
    tried.respond(lose(1000, Kind.NETWORK, trained=900))
    assert tried.respond(lose(4000, Kind.NETWORK, trained=2900)).slots == ()


def test_bugs_spend_the_budget_which_training_refills() -> None:
    tried = railhead(backoffLimit=1, backoffResetSeconds=7200)
    tried.respond(lose(10_000, Kind.SOFTWARE, trained=9000))
    tried.respond(lose(20_000, Kind.SOFTWARE, trained=9000))
    with pytest.raises(GaveUp, match="backoffLimit 1 is reached"):
        tried.respond(lose(24_000, Kind.SOFTWARE, trained=3000))


def test_the_rest_of_the_time_is_lost_when_the_job_fails() -> None:
    spent = make_run(railhead(backoffLimit=0), Fault(10 * DAY, Kind.SOFTWARE, 3)).play()
    assert spent[FAILED] == pytest.approx(20 * DAY)


def test_a_broken_node_gets_no_pods_until_it_is_repaired() -> None:
    cluster = Cluster(SLOTS, True, Random(1))
    cluster.harm("node-7", Kind.GPU, now=0.0)
    assert "node-7" not in cluster.place(SLOTS, taken=(), avoided=(), now=1.0).nodes
    chosen = cluster.place(SLOTS + 2, taken=(), avoided=(), now=1.0)
    assert "node-7" in chosen.nodes and chosen.seconds > REPAIR_SECONDS - 1, "no other one is left"


def test_a_faulty_node_that_stays_in_service_fails_again_until_it_is_repaired() -> None:
    cluster = Cluster(SLOTS, False, Random(1))
    cluster.harm("node-7", Kind.GPU, now=0.0)
    assert cluster.list_faulty(["node-6", "node-7"], now=1.0) == ["node-7"]
    assert cluster.list_faulty(["node-6", "node-7"], now=REPAIR_SECONDS) == []
    run = make_run(NewPods(), Fault(DAY, Kind.GPU, 3))
    run.play()
    assert run.losses > 1


def test_an_image_is_pulled_once_on_each_node() -> None:
    cluster = Cluster(SLOTS, True, Random(1))
    everywhere = SLOTS + 2
    assert cluster.place(everywhere, taken=(), avoided=(), now=0.0).seconds > everywhere / PODS_PER_SECOND + 50
    assert cluster.place(everywhere, taken=(), avoided=(), now=0.0).seconds == everywhere / PODS_PER_SECOND


def test_avoided_nodes_are_used_when_no_others_are_left() -> None:
    cluster = Cluster(SLOTS, True, Random(1))
    nodes: Sequence[str] = cluster.place(SLOTS, taken=(), avoided=("node-1", "node-2"), now=0.0).nodes
    assert not {"node-1", "node-2"}.intersection(nodes)
    assert len(set(cluster.place(SLOTS, taken=(), avoided=("node-1", "node-2", "node-3"), now=0.0).nodes)) == SLOTS


def test_the_measured_seconds_are_those_of_the_page() -> None:
    page = " ".join((PROJECT / "docs/internals/benchmarks.md").read_text().split())
    for figures in (rules.FRESH, rules.HEAD_LOST, rules.IN_PLACE, rules.NEW_ATTEMPT):
        assert f"({figures[0]} and {figures[1]})" in page
    assert "6.5 s ({}, {} and {})".format(*rules.WORKER_LOST) in page
    assert f"| {PODS_PER_SECOND:.0f} | - |" in page


def test_a_row_has_the_mean_and_the_range() -> None:
    results = [
        program.Result({"productive": 0.9 * SECONDS, "retrained": 7200.0, "restoring": 3600.0}, 3),
        program.Result({"productive": 0.8 * SECONDS, "podsPending": 3600.0}, 4),
    ]
    row = program.write_row(program.WAYS[0], 512, results)
    assert row == "| 512 | Railhead | 85.00 (80.00 to 90.00) | 3.5 | 1.0 | 0.0 | 1.0 |"
