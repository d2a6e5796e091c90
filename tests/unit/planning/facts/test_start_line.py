"""Jobs that share a quota take turns, so that one soon has all its pods; jobs that fit are not held up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import pytest

from railhead.contract.text import parse_time
from railhead.planning.facts.settlement import released_delay_seconds
from railhead.planning.facts.start_line import TURN_SECONDS, find_creators, find_share, find_turn, move, release
from railhead.planning.job import Job
from railhead.planning.observed import Place
from railhead.planning.pod_view import Problem
from tests.model.crowd import Crowd
from tests.unit.builders import NOW, make_job

PODS, QUOTA = 16, 24
PENDING = {"phase": "Pending", "attempt": 1, "waiting": {"since": "2026-01-01T11:59:00Z"}}
WITHIN = 120  # seconds
SEEDS = range(20)


@contextmanager
def crowd(jobs: int = 4, *, seed: int = 1, quota: int = QUOTA, **options: Any) -> Iterator[Crowd]:
    made = Crowd(seed, quota, **options)
    for number in range(jobs):
        made.apply(f"job-{number}", PODS)
    try:
        yield made
    finally:
        made.close()


def wait_for_first(made: Crowd, *, limit: float = 3600) -> float:
    while not made.complete_at and made.loop.time() < limit:
        made.run(made.loop.time() + 5)
    return min(made.complete_at.values(), default=limit)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_four_jobs_one_has_all_its_pods_within_two_minutes(seed: int) -> None:
    with crowd(seed=seed) as made:
        assert wait_for_first(made) <= WITHIN
        assert sum(made.held.values()) <= QUOTA * WITHIN, "GPU-seconds of incomplete gangs"


@pytest.mark.parametrize("jobs", [2, 3, 5, 6, 7, 8])
@pytest.mark.parametrize("seed", [1, 2])
def test_so_has_one_of_two_to_eight_jobs(jobs: int, seed: int) -> None:
    with crowd(jobs, seed=seed) as made:
        assert wait_for_first(made) <= WITHIN


def test_jobs_that_start_eleven_seconds_apart_do_no_worse() -> None:
    with crowd(0) as made:
        for number in range(8):
            made.at(11 * number, partial(made.apply, f"job-{number}", PODS))
        assert wait_for_first(made) <= WITHIN


def test_all_of_them_train_one_after_the_other() -> None:
    with crowd(seconds=60) as made:
        made.run(1800)
        assert len(made.complete_at) == 4
        assert {made.status(f"job-{number}")["phase"] for number in range(4)} == {"Succeeded"}
        assert all("startLine" not in made.status(f"job-{number}") for number in range(4))


def test_incomplete_gangs_hold_less_each_hour_while_nothing_is_free() -> None:
    """One job trains forever; the eight pods that are left fit none of the others."""
    with crowd() as made:
        made.run(1200)
        assert len(made.complete_at) == 1
        before = sum(made.held.values())
        made.run(1200 + 3600)
        held = sum(made.held.values()) - before
        assert held <= 3600 * (QUOTA - PODS) / 2, "they are free for others for at least half of the time"


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_job_that_fits_beside_them_is_not_held_up(seed: int) -> None:
    with crowd(seed=seed) as made:
        made.at(10, lambda: made.apply("small", 4))
        made.at(400, lambda: made.apply("late", 4))
        made.run(700)
        assert made.complete_at.get("small", inf) <= 10 + WITHIN
        assert made.complete_at.get("late", inf) <= 400 + WITHIN


def test_a_job_that_was_never_rejected_waits_for_nobody() -> None:
    with crowd(1) as made:
        made.run(30)
        made.apply("small", 4)
        made.run(40)
        assert "small" in made.complete_at and "startLine" not in made.status("small")


def test_a_job_that_no_quota_fits_holds_nobody_up_and_says_so() -> None:
    with crowd(0) as made:
        made.apply("huge", 30)
        for number in range(2):
            made.at(1, partial(made.apply, f"job-{number}", PODS))
        assert wait_for_first(made) <= WITHIN
        assert "huge" not in made.complete_at
        made.run(300)
        failure = made.status("huge")["failure"]
        assert failure["reason"] == "ExceedsQuota" and "125 % of quota gpus" in failure["message"]
        assert "suspend the job and lower spec.scaling.resourcesPerWorker" in failure["message"], "what can change"
        assert made.held["huge"] <= 60 * QUOTA
        made.quota = 64
        made.run(900)
        assert len(made.complete_at) == 3, "it is tried again"


@pytest.mark.parametrize("at", [3, 20, 40, 70])
def test_another_leader_keeps_the_order(at: int) -> None:
    with crowd(6) as made:
        made.run(at)
        before = {name: made.status(name).get("startLine", {}).get("since") for name in made.sizes}
        made.change_leader()
        made.run(at + 2)
        after = {name: made.status(name).get("startLine", {}).get("since") for name in made.sizes}
        assert {name: since for name, since in after.items() if before[name]} == {
            name: since for name, since in before.items() if since
        }
        assert wait_for_first(made) <= WITHIN


def test_pods_held_by_a_job_whose_turn_it_is_not_are_released_by_another_leader_too() -> None:
    """The new leader has seen no rejection."""
    with crowd(4, ending=(1, 1.5)) as made:
        made.run(12)
        waiting = [name for name in made.sizes if made.reason(name) == "WaitingForTurn"]
        assert len(waiting) == 3 and all(made.pods_of(name) for name in waiting)
        made.change_leader()
        made.run(40)
        attempts = {made.status(name)["attempt"] for name in waiting if made.pods_of(name)}
        assert 1 not in attempts, "what the first attempt held"


def test_a_job_that_waits_names_the_one_whose_turn_it_is() -> None:
    with crowd() as made:
        made.run(25)
        [first] = [name for name in made.sizes if "turnTime" in made.status(name).get("startLine", {})]
        for name in made.sizes.keys() - {first}:
            [condition] = [c for c in made.status(name)["conditions"] if c["type"] == "Reconciling"]
            assert condition["reason"] == "WaitingForTurn" and f"TrainJob {first} " in condition["message"]


def test_a_job_that_is_deleted_in_its_turn_is_followed_at_once() -> None:
    with crowd(8, outsiders=QUOTA - 4) as made:
        made.run(60)
        [first] = [name for name in made.sizes if "turnTime" in made.status(name).get("startLine", {})]
        del made.sizes[first]
        made.api.remove(("trainjobs", "default", first))
        made.outsiders = 0
        for pod in made.pods_of(first):
            made.api.remove(("pods", "default", pod["metadata"]["name"]))
        assert wait_for_first(made) <= 60 + 45


def place(name: str, since: float, turn: float | None = None, percent: int = 67) -> Place:
    turn_since = None if turn is None else NOW + timedelta(seconds=turn)
    return Place(name, name, "gpus", percent, NOW + timedelta(seconds=since), turn_since)


@pytest.mark.parametrize(
    ("line", "creators"),
    [
        ([], []),
        ([place("b", -1), place("a", -2)], ["a"]),
        ([place("b", -1), place("a", -1)], ["a"]),
        ([place("a", -9), place("b", -1, turn=-5)], ["b"]),
        ([place("a", -9, turn=-TURN_SECONDS), place("b", -1)], ["b"]),
        ([place("a", 1), place("b", 2)], []),
        ([place("a", 1), place("b", -1)], ["b"]),
        ([place("a", -3), place("b", -2, percent=34), place("c", -1, percent=33)], ["a", "c"]),
        ([place("a", -3, percent=50), place("b", -2, percent=30), place("c", -1, percent=30)], ["a", "b"]),
        ([place("a", -3, percent=30), place("b", -2, percent=40), place("c", -1, percent=30)], ["a", "c"]),
        ([place("a", -3), place("b", -2, percent=0)], ["a"]),
        ([place("a", -3, percent=0), place("b", -2, percent=1)], ["a"]),
    ],
)
def test_who_may_create(line: list[Place], creators: list[str]) -> None:
    assert [each.name for each in find_creators(line, NOW)] == creators
    assert [each.name for each in find_creators(line[::-1], NOW)] == creators


def test_jobs_that_gave_back_together_return_apart() -> None:
    waits = sorted(released_delay_seconds(replace(make_job(), uid=f"uid-{n}"), 8) for n in range(64))
    assert 300 <= waits[0] < 330 and 570 < waits[-1] <= 600 and max(b - a for a, b in pairwise(waits)) < 60
    assert released_delay_seconds(make_job(), 3) == released_delay_seconds(make_job(), 3)


def in_line(name: str = "other", since: float = -60, **line: Any) -> Place:
    return replace(place(name, since), **line)


def job_in_line(*others: Place, turn: str | None = None, released: int = 0) -> Job:
    """Its place is a minute old."""
    line = {"since": "2026-01-01T11:59:00Z", "quota": "gpus", "percent": 67, "released": released}
    status = {**PENDING, "startLine": {**line, **({"turnTime": turn} if turn else {})}}
    return replace(make_job(status=status), line=others)


def test_after_its_turn_a_job_goes_to_the_end_and_waits_longer_each_time() -> None:
    for released, most in ((0, 5), (1, 10), (9, 600)):
        after = release(job_in_line(in_line("later", -30), turn="2026-01-01T11:59:30Z", released=released))
        assert after is not None and after.turn_time is None and after.released == released + 1
        since = parse_time(after.since)
        assert since is not None and most / 2 - 1 <= (since - NOW).total_seconds() <= most


def test_a_job_that_releases_its_pods_out_of_turn_keeps_its_place() -> None:
    after = release(job_in_line(in_line("earlier", -90)))
    assert after is not None and (after.since, after.released) == ("2026-01-01T11:59:00Z", 1)


def test_a_turn_without_any_pods_ends_after_five_minutes() -> None:
    later = in_line("later", -30)
    fresh, over = "2026-01-01T11:55:01Z", "2026-01-01T11:55:00Z"
    same, after = move(job_in_line(later, turn=fresh)), move(job_in_line(later, turn=over))
    assert same is not None and (same.since, same.turn_time) == ("2026-01-01T11:59:00Z", fresh)
    assert after is not None and (after.since, after.turn_time) == ("2026-01-01T12:00:00Z", None)
    alone = move(job_in_line(turn=over))
    assert alone is not None and alone.turn_time == over, "alone it has nobody to wait for"


def test_jobs_that_different_quotas_hold_up_do_not_wait_for_each_other() -> None:
    assert find_turn(job_in_line(in_line(since=-90))) is not None
    assert find_turn(job_in_line(in_line(since=-90, quota="cpus"))) is None


MESSAGE = "pods is forbidden: exceeded quota: gpus, requested: {0}, used: {1}, limited: {2}"


@pytest.mark.parametrize(
    ("pod", "amounts", "percent"),
    [
        ("w0-0", ("requests.nvidia.com/gpu=8", "requests.nvidia.com/gpu=4", "requests.nvidia.com/gpu=12"), 134),
        ("w0-0", ("requests.nvidia.com/gpu=8", "requests.nvidia.com/gpu=4", "requests.nvidia.com/gpu=16"), 100),
        ("w0-0", ("limits.memory=1Gi,pods=1", "limits.memory=3Gi,pods=3", "limits.memory=4Gi,pods=4"), 75),
        ("head", ("requests.cpu=500m", "requests.cpu=1", "requests.cpu=1"), 50),
        ("head", ("pods=1", "pods=2", "pods=2"), 150),
        ("w0-0", ("requests.cpu=1", "requests.cpu=0", "requests.cpu=0"), 101),
        ("w0-0", ("requests.cpu=1", "requests.cpu=0", "requests.cpu=?"), 0),
    ],
)
def test_what_a_job_needs_of_a_quota_is_in_the_api_servers_message(
    pod: str, amounts: tuple[str, str, str], percent: int
) -> None:
    job = make_job(status=PENDING)
    message = f"Pod digits-0f1e2d-1-{pod} was rejected: {MESSAGE.format(*amounts)}"
    assert find_share(job, Problem("QuotaExceeded", message)) == ("gpus", percent)


@pytest.mark.parametrize("text", ["failed quota: gpus: must specify limits.cpu for: ray", "denied the request"])
def test_other_rejections_have_no_line(text: str) -> None:
    assert find_share(make_job(status=PENDING), Problem("QuotaExceeded", text)) is None
