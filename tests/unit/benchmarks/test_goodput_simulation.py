"""Simulated goodput: published rates, closed sums, and cases that can be computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from benchmarks.goodput_simulation import __main__ as program
from benchmarks.goodput_simulation import rules
from benchmarks.goodput_simulation.cluster import NODES_PER_SPARE, PODS_PER_SECOND, REPAIR_SECONDS, Cluster
from benchmarks.goodput_simulation.faults import DAY, HEAD, INTERRUPTIONS, LLAMA_3, META, Fault, Kind, plan_faults
from benchmarks.goodput_simulation.rules import GaveUp, Loss, NewPods, Railhead, Rules
from benchmarks.goodput_simulation.run import FAILED, HANG_SECONDS, SECONDS, Run
from benchmarks.goodput_simulation.saves import Saved, Saves, SaveTimes

from railhead.contract.failure import POLICIES, FailureClass
from railhead.planning.facts.avoided_nodes import AVOID_FIRST_SECONDS

PROJECT = Path(__file__).resolve().parents[3]
SLOTS = 64
EVERY = 1800.0
SPARE = SLOTS // NODES_PER_SPARE
FREE = SaveTimes(stall=0.0, write=0.0, load=0.0)
SAVES = Saves(EVERY, FREE, gpus=SLOTS)


def make_run(rules: Rules, *faults: Fault, resumes: bool = True, takes_out: bool = False, load: float = 0.0) -> Run:
    chance = Random(1)
    return Run(rules, Cluster(SLOTS, takes_out, chance), faults, chance, SAVES, load=load, resumes=resumes)


def railhead(**limits: int) -> Railhead:
    return Railhead(SLOTS, limits=limits)


def is_one_of(seconds: float, measured: Sequence[float]) -> bool:
    return any(seconds == pytest.approx(each) for each in measured)


def lose(at: float, kind: Kind, *, slot: int = 3, node: str = "node-3", trained: float = 0.0) -> Loss:
    return Loss(Fault(at, kind, slot), node, trained, int(trained // EVERY))


def test_the_rates_are_the_published_ones() -> None:
    assert INTERRUPTIONS == 419
    of_llama_3 = LLAMA_3 * 16_384 * 54 * DAY
    assert of_llama_3 == pytest.approx(419)
    between_metas = 1 / (META * 1024)
    assert between_metas == pytest.approx(7.9 * 3600)


def test_interruptions_come_as_often_as_the_rate_says_and_any_host_may_be_the_heads() -> None:
    faults = plan_faults(LLAMA_3 * 16_384, 8, seconds=540 * DAY, chance=Random(1))
    assert len(faults) == pytest.approx(4190, rel=0.05)
    assert [each.at for each in faults] == sorted(each.at for each in faults)
    assert {each.kind for each in faults if each.slot == HEAD} == {Kind.HOST}
    assert all(HEAD <= each.slot < 8 for each in faults)
    assert sum(each.kind is Kind.GPU for each in faults) / len(faults) == pytest.approx(268 / 419, abs=0.03)
    assert faults == plan_faults(LLAMA_3 * 16_384, 8, seconds=540 * DAY, chance=Random(1))


@pytest.mark.parametrize("way", program.WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("seed", range(5))
def test_the_seconds_of_all_causes_add_up_to_the_time(way: program.Way, seed: int) -> None:
    chance = Random(seed)
    faults = plan_faults(20_000 * LLAMA_3, 8, seconds=SECONDS, chance=chance)  # so many that they interrupt starts, too
    saves = Saves(way.every, SaveTimes(), gpus=20_000)
    run = Run(way.rules(8), Cluster(8, way.takes_out, chance), faults, chance, saves, load=20.0, resumes=way.resumes)
    spent = run.play()
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
    chosen = cluster.place(SLOTS + SPARE, taken=(), avoided=(), now=1.0)
    assert "node-7" in chosen.nodes and chosen.seconds > REPAIR_SECONDS - 1, "no other one is left"


def test_a_faulty_node_that_stays_in_service_fails_again_until_it_is_repaired() -> None:
    cluster = Cluster(SLOTS, False, Random(1))
    cluster.harm("node-7", Kind.GPU, now=0.0)
    assert cluster.list_faulty(["node-6", "node-7"], now=1.0) == ["node-7"]
    assert cluster.list_faulty(["node-6", "node-7"], now=REPAIR_SECONDS) == []
    days = [Fault(number * DAY, Kind.GPU, 3) for number in range(1, 6)]
    run = make_run(NewPods(), *days)
    run.play()
    assert run.losses > len(days) + 5


def test_an_image_is_pulled_once_on_each_node() -> None:
    cluster = Cluster(SLOTS, True, Random(1))
    everywhere = SLOTS + SPARE
    assert cluster.place(everywhere, taken=(), avoided=(), now=0.0).seconds > everywhere / PODS_PER_SECOND + 50
    assert cluster.place(everywhere, taken=(), avoided=(), now=0.0).seconds == everywhere / PODS_PER_SECOND


def test_avoided_nodes_are_used_when_no_others_are_left() -> None:
    cluster = Cluster(SLOTS, True, Random(1))
    nodes: Sequence[str] = cluster.place(SLOTS, taken=(), avoided=("node-1", "node-2"), now=0.0).nodes
    assert not {"node-1", "node-2"}.intersection(nodes)
    most = [f"node-{number}" for number in range(SPARE + 1)]
    assert len(set(cluster.place(SLOTS, taken=(), avoided=most, now=0.0).nodes)) == SLOTS


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
    row = program.write_row("Meta", 1024, program.WAYS[0], results)
    assert row == "| 1,024, Meta | Railhead | 85.00 (80.00 to 90.00) | 3.5 | 0.0 | 1.0 | 0.0 | 1.0 | 0 |"
    assert program.HEADER.count("|") == row.count("|")


def test_saves_keep_what_was_trained_before_the_last_one_that_is_written() -> None:
    saves = Saves(100.0, SaveTimes(stall=2.0, write=30.0), gpus=1)
    assert saves.look(129.0) == Saved(kept=0.0, stalled=2.0, commits=0)
    assert saves.look(130.0) == Saved(kept=100.0, stalled=2.0, commits=1)
    assert saves.look(201.0) == Saved(kept=100.0, stalled=3.0, commits=1)
    assert saves.look(1030.0) == Saved(kept=982.0, stalled=20.0, commits=10)


def test_saves_at_railheads_own_pace_begin_early_and_write_half_of_the_time() -> None:
    saves = Saves("auto", SaveTimes(stall=0.2, write=40.0), gpus=16_384)
    assert saves.look(69.0).commits == 0 and saves.look(70.0) == Saved(kept=30.0, stalled=0.2, commits=1)
    assert [saves.look(70.0 + 80.0 * more).commits for more in (1, 2, 50)] == [2, 3, 51]
    slow = Saves("auto", SaveTimes(stall=3.0, write=40.0), gpus=16_384)
    assert slow.look(90_030.0 + 40.0).commits == pytest.approx(90_000 / 300, abs=1), "1 % of the time"
    assert Saves("continuous", SaveTimes(stall=0.2, write=40.0), gpus=1).look(4000.0).commits == 100


def test_a_restart_loads_the_checkpoint_if_there_is_one() -> None:
    begin = sum(make_run(railhead()).play()[cause] for cause in ("starting", "podsPending"))
    for trained, load in ((1000, 0.0), (2000, 20.0)):
        spent = make_run(railhead(), Fault(begin + trained, Kind.SOFTWARE, 3), load=20.0).play()
        assert is_one_of(spent["restoring"], [each + load for each in rules.IN_PLACE])


GOALS = (("Meta", 1024, 0.99), ("Llama 3", 16_384, 0.97), ("Meta", 16_384, 0.93))


@pytest.mark.slow  # 20 jobs of 30 days
@pytest.mark.parametrize(("rate", "gpus", "goal"), GOALS)
def test_jobs_with_default_limits_reach_the_goal_and_none_fails(rate: str, gpus: int, goal: float) -> None:
    of_rate = program.RATES[rate]
    results = [program.simulate(program.WAYS[0], of_rate, gpus, seed, SaveTimes()) for seed in range(20)]
    assert not any(result.has_failed for result in results)
    assert sum(result.goodput for result in results) / len(results) > goal


def test_hangs_of_an_attempt_that_has_trained_for_long_spend_no_budget() -> None:
    tried = railhead(noProgressLimit=0, backoffResetSeconds=7200)
    tried.respond(lose(10_000, Kind.HANG, trained=9000))
    assert tried.respond(lose(20_000, Kind.HANG, trained=9000)).slots is None, "a second one gets new pods"
    tried.respond(lose(22_000, Kind.HANG, trained=1900))
    with pytest.raises(GaveUp, match="hung within backoffResetSeconds"):
        tried.respond(lose(24_000, Kind.HANG, trained=1900))
