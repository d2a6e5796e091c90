"""Jobs that share a quota: none holds a part of it for long, one soon has all its pods, and all run in the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import pytest

from railhead.planning.facts.backoff import released_delay_seconds
from railhead.planning.facts.deadlines import HOLD_SECONDS
from railhead.planning.facts.quota import find_share
from railhead.planning.facts.reasons import PARTIAL_START, QUOTA_EXCEEDED
from railhead.planning.job import Job
from railhead.planning.pod_view import Problem
from tests.model.crowd import Crowd
from tests.slow_cases import slow_after
from tests.unit.builders import make_job, make_spec

PODS, QUOTA = 16, 24
PENDING = {"phase": "Pending", "attempt": 1, "waiting": {"since": "2026-01-01T11:59:00Z"}}
WITHIN = 300  # seconds until the first job has all its pods
WITHIN_OF_MANY = 600
LONGEST_HOLD = 60
# The others try the same rule in other mixes, which never differed.
SEEDS = slow_after(3, range(20))


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
def test_of_four_jobs_one_soon_has_all_its_pods_and_none_holds_a_part_for_long(seed: int) -> None:
    with crowd(seed=seed) as made:
        assert wait_for_first(made) <= WITHIN
        assert max(made.longest_hold.values()) <= LONGEST_HOLD


@pytest.mark.parametrize("jobs", slow_after(1, [8, 2, 3, 6]))
def test_so_has_one_of_two_to_eight_jobs(jobs: int) -> None:
    with crowd(jobs) as made:
        assert wait_for_first(made) <= WITHIN_OF_MANY
        assert max(made.longest_hold.values()) <= LONGEST_HOLD


def test_jobs_that_start_eleven_seconds_apart_do_no_worse() -> None:
    with crowd(0) as made:
        for number in range(8):
            made.at(11 * number, partial(made.apply, f"job-{number}", PODS))
        assert wait_for_first(made) <= WITHIN_OF_MANY


@pytest.mark.parametrize("seed", slow_after(1, [1, 2]))
def test_all_of_them_train_one_after_the_other_with_few_requests(seed: int) -> None:
    with crowd(seed=seed, seconds=60) as made:
        made.run(1800)
        assert {made.status(f"job-{number}")["phase"] for number in range(4)} == {"Succeeded"}
        assert max(made.longest_hold.values()) <= LONGEST_HOLD
        assert made.count_requests() <= 4 * 400


def test_a_job_that_waits_for_hours_costs_few_requests_and_holds_little() -> None:
    """One job trains forever; the eight pods that are left fit none of the others."""
    with crowd() as made:
        made.run(1200)
        assert len(made.complete_at) == 1
        before, asked = sum(made.held.values()), made.count_requests()
        made.run(1200 + 3600)
        held = sum(made.held.values()) - before
        assert held <= 3600 * (QUOTA - PODS) / 2, "they are free for others for at least half of the time"
        assert made.count_requests() - asked <= 3 * 600
        assert max(made.longest_hold.values()) <= LONGEST_HOLD


def test_of_a_quota_for_gpus_a_job_takes_no_part_again() -> None:
    """A dry run tells whether there is room for all its pods; of the number of pods none can tell."""
    with crowd(0, quota=QUOTA, resource="requests.nvidia.com/gpu") as made:
        for number in range(4):
            made.apply(f"job-{number}", PODS, scaling={"useGPU": True})
        made.run(1200)
        assert len(made.complete_at) == 1
        before = sum(made.held.values())
        made.run(1200 + 3600)
        assert sum(made.held.values()) == before
        assert all(made.status(f"job-{number}")["attempt"] <= 3 for number in range(4))


@pytest.mark.parametrize("seed", slow_after(1, [1, 2, 3]))
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
        assert "small" in made.complete_at


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
        assert made.longest_hold["huge"] <= HOLD_SECONDS
        made.quota = 64
        made.run(1200)
        assert len(made.complete_at) == 3, "it is tried again"


@pytest.mark.parametrize("at", [3, 20, 40, 70])
def test_another_leader_changes_nothing_of_it(at: int) -> None:
    with crowd() as made:
        made.run(at)
        made.change_leader()
        assert wait_for_first(made) <= WITHIN
        assert max(made.longest_hold.values()) <= LONGEST_HOLD


def released(job: Job, times: int, *, reason: str = QUOTA_EXCEEDED, ran: int = 0) -> Job:
    """Its last attempts released their pods; `ran`: the number of the one that trained."""
    attempts = [
        {
            "number": number,
            "startTime": "2026-01-01T11:00:00Z",
            "completionTime": "2026-01-01T11:01:00Z",
            "class": "Startup",
            "reason": reason,
            **({"runningTime": "2026-01-01T11:00:30Z"} if number == ran else {}),
        }
        for number in range(1, times + 1)
    ]
    status = make_job(status={"attempt": times, "attempts": attempts}).status
    return replace(job, status=status)


def test_jobs_that_gave_back_together_return_apart() -> None:
    jobs = [released(replace(make_job(), uid=f"uid-{number}"), 8) for number in range(64)]
    waits = sorted(released_delay_seconds(job, QUOTA_EXCEEDED) for job in jobs)
    assert 300 <= waits[0] < 330 and 570 < waits[-1] <= 600 and max(b - a for a, b in pairwise(waits)) < 60
    assert released_delay_seconds(jobs[0], QUOTA_EXCEEDED) == released_delay_seconds(jobs[0], QUOTA_EXCEEDED)


@pytest.mark.parametrize(("times", "most"), [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (10, 600)])
def test_the_delay_doubles_with_each_attempt_in_a_row(times: int, most: int) -> None:
    wait = released_delay_seconds(released(make_job(), times), QUOTA_EXCEEDED)
    assert most / 2 <= wait <= most


@pytest.mark.parametrize(("held", "most"), [(1800, 300), (60, 60), (1, 10)])
def test_a_job_stays_away_from_nodes_for_no_longer_than_it_would_hold_them(held: int, most: int) -> None:
    job = released(make_job(spec=make_spec(partialStartDeadlineSeconds=held)), 1, reason=PARTIAL_START)
    assert most / 2 <= released_delay_seconds(job, PARTIAL_START) <= most


def test_the_row_begins_again_once_training_has_run() -> None:
    assert released_delay_seconds(released(make_job(), 6, ran=6), QUOTA_EXCEEDED) <= 10
    assert 10 <= released_delay_seconds(released(make_job(), 6, ran=5), QUOTA_EXCEEDED) <= 20
    assert released_delay_seconds(released(make_job(), 6, reason="NodeFailed"), QUOTA_EXCEEDED) <= 10


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
def test_other_rejections_say_nothing_of_a_share(text: str) -> None:
    assert find_share(make_job(status=PENDING), Problem("QuotaExceeded", text)) is None
