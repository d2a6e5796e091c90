"""Jobs that need more GPUs than there are, and preempt each other: what incomplete gangs hold, and what training loses.

`make bench-queue-simulated` plays whole days.
"""

from __future__ import annotations

import logging
from functools import cache

import pytest

from tests.model.contention.__main__ import simulate, write_row
from tests.model.contention.cluster import INCOMPLETE, TRAINS, Contention, Way
from tests.model.contention.scheduler import Choice, Pod, choose
from tests.model.contention.training import STEP

SEED, JOBS, SECONDS, SPAN = 1, 10, 54_000.0, 7200.0
PARTIAL_START_SECONDS = 1800.0  # the default of spec.partialStartDeadlineSeconds
SLACK = 120.0  # until the released pods have ended


@cache
def play(way: Way) -> Contention:
    logging.disable(logging.WARNING)
    try:
        return simulate(way, seed=SEED, jobs=JOBS, seconds=SECONDS, span=SPAN)
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("way", ["gang", "queue"])
def test_with_either_incomplete_gangs_hold_no_gpu_and_a_preempted_job_loses_at_most_one_step(way: Way) -> None:
    cluster = play(way)
    assert len(cluster.ended_at) == JOBS
    assert cluster.spent[INCOMPLETE] == 0
    assert cluster.spent[TRAINS] > 0
    assert cluster.losses, "urgent jobs preempt others"
    assert all(loss.had_head_notice and loss.seconds <= STEP for loss in cluster.losses), cluster.losses


def test_without_either_they_hold_gpus_no_longer_than_the_deadline_of_a_partial_start() -> None:
    cluster = play("none")
    assert cluster.spent[INCOMPLETE] > 0, "the jobs compete"
    assert cluster.longest <= PARTIAL_START_SECONDS + SLACK


def test_the_table_has_a_row_for_each_cluster() -> None:
    cluster = simulate("queue", seed=SEED, jobs=1, seconds=SPAN, span=0.0)
    assert write_row("queue", SEED, cluster).startswith(f"| {SEED} | a queue | 1 |")


def pod(name: str, *, gang: str = "", priority: int = 0, order: int = 0, is_placed: bool = False) -> Pod:
    return Pod(name, 1, priority, order, gang=gang, is_placed=is_placed)


def test_a_gang_is_placed_as_a_whole_or_not_at_all() -> None:
    pods = [pod("a", gang="g"), pod("b", gang="g")]
    assert choose(pods, 1, {"g": 2}) == Choice(waiting=("a", "b"))
    assert choose(pods, 2, {"g": 2}) == Choice(placed=("a", "b"))
    assert choose(pods[:1], 2, {"g": 2}) == Choice(), "its other pod is not there yet"


def test_a_gang_of_higher_priority_preempts_the_newest_gang_as_a_whole_if_that_makes_enough_room() -> None:
    old, new = (
        [pod(f"{name}{n}", gang=name, order=order, is_placed=True) for n in (1, 2)]
        for name, order in (("old", 1), ("new", 2))
    )
    urgent = [pod("u", gang="u", priority=1, order=3)]
    assert choose([*old, *new, *urgent], 4, {"u": 1}) == Choice(evicted=("new1", "new2"), waiting=("u",))
    assert choose([*old, *urgent, pod("v", gang="u", priority=1)], 1, {"u": 2}) == Choice(waiting=("u", "v"))


def test_what_preempted_pods_leave_is_kept_for_the_pods_that_need_it() -> None:
    leaving = Pod("l", 1, 0, 1, is_placed=True, is_leaving=True)
    pods = [leaving, pod("u", priority=1, order=2), pod("low", order=3)]
    assert choose(pods, 1, {}) == Choice(waiting=("u", "low"))
    assert choose(pods[1:], 1, {}) == Choice(placed=("u",), waiting=("low",))
