"""When `railhead why` advises another time between checkpoints, and by which losses: a table of cases."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railhead.client.explain.save_advice import LEAST_GAIN, USUAL_DOWNTIME, describe_risk, find_save_advice
from railhead.client.explain.save_interval import SaveCosts
from railhead.client.explain.why import explain_job
from railhead.contract.loss_rate import PUBLISHED_GPU_SECONDS, JobLosses
from railhead.json_object import Object
from tests.unit.client.explain.test_save_interval import simulate
from tests.unit.client.jobs import make_running, make_snapshot

HOUR = 3600
FEW = JobLosses(0, 0)
HOURS_6 = 6 * HOUR
NOTHING: list[str] = []


def train(
    *,
    gpus: int = 1024,
    productive: int = 100 * HOUR,
    commits: int = 200,
    checkpointing: int = 2400,
    interruptions: Object | None = None,
    **lost: int,
) -> Object:
    """A job that trains, by default with a checkpoint every 30 minutes for which it waits 12 s."""
    checkpoint = {"uri": "s3://b/c", "index": commits - 1} if commits else None
    seconds = {"checkpointing": checkpointing, **lost}
    goodput = {
        "wallSeconds": productive + sum(seconds.values()),
        "productiveSeconds": productive,
        "gpuSeconds": gpus * productive,
        "lostSeconds": seconds,
        "interruptions": interruptions or {},
    }
    return make_running(
        spec={"scaling": {"numWorkers": max(gpus, 1), "workersPerPod": 8, "useGPU": gpus > 0}},
        workers={"desired": max(gpus, 8) // 8},
        goodput=goodput,
        checkpoint=checkpoint,
        progress={"updateTime": "2026-11-25T11:59:00Z"},
    )


def advise(job: Object, others: JobLosses = FEW) -> list[tuple[str, str]]:
    return list(find_save_advice(replace(make_snapshot(job), namespace_losses=others)))


OWN = {"Hardware": 3, "Preemption": 1, "Application": 9}
CASES: dict[str, tuple[Object, JobLosses, list[str]]] = {
    "1,024 GPUs at Meta's rate": (train(), FEW, ["CheckpointsTooRare", "every 7h54m (Meta's published rate for 1024"]),
    "256 GPUs at Meta's rate": (train(gpus=256), FEW, NOTHING),
    "8 GPUs": (train(gpus=8), FEW, NOTHING),
    "8 GPUs with a checkpoint a day": (train(gpus=8, commits=4), FEW, NOTHING),
    "64 GPUs with a checkpoint a day": (train(gpus=64, commits=4), FEW, ["CheckpointsTooRare", "every 1d1h of"]),
    "no GPUs and no losses": (train(gpus=0), FEW, NOTHING),
    "no GPUs, own losses": (
        train(gpus=0, interruptions={"Preemption": 20}),
        FEW,
        ["CheckpointsTooRare", "(20 losses in this run)"],
    ),
    "own losses come before all others": (
        train(interruptions=OWN),
        JobLosses(500, 1024 * HOUR),
        NOTHING,
    ),
    "own failures of the code are no losses": (
        train(interruptions={"Application": 30}),
        FEW,
        ["CheckpointsTooRare", "Meta's published rate"],
    ),
    "a namespace with many losses": (
        train(gpus=8),
        JobLosses(40, 320 * HOUR),
        ["CheckpointsTooRare", "every 1h (40 in 320 GPU-hours of this namespace's jobs)"],
    ),
    "a namespace with few losses": (train(), JobLosses(3, 1024 * 300 * HOUR), NOTHING),
    "a namespace with hardly any loss in much time": (train(), JobLosses(1, 1024 * 2000 * HOUR), NOTHING),
    "the same in less time": (
        train(commits=50),
        JobLosses(1, 1024 * 40 * HOUR),
        ["CheckpointsTooRare", "every 20h (at most: 1 in 40,960 GPU-hours of this namespace's jobs)"],
    ),
    "checkpoints each minute that block": (
        train(commits=6000, checkpointing=6000 * 10),
        FEW,
        ["CheckpointsTooOften", "a checkpoint every 1m of training and waits 10 s"],
    ),
    "checkpoints each half second": (
        train(gpus=8, productive=HOUR, commits=7200, checkpointing=3600),
        FEW,
        ["CheckpointsTooOften", "a checkpoint every 0.5 s of training and waits 0.5 s", "costs 50.0%"],
    ),
    "checkpoints each minute that block nothing": (train(commits=6000, checkpointing=100), FEW, NOTHING),
    "checkpoints each minute on 8 GPUs": (
        train(gpus=8, commits=6000, checkpointing=6000 * 5),
        FEW,
        ["CheckpointsTooOften", "this costs 7.7% of the time"],
    ),
    "the best interval already": (train(commits=436, checkpointing=436 * 12), FEW, NOTHING),
    "too few commits to say anything": (train(productive=3000, commits=2, checkpointing=24), FEW, NOTHING),
    "few commits in much time": (train(productive=HOURS_6, commits=1, checkpointing=12), FEW, ["CheckpointsTooRare"]),
    "no commits": (train(commits=0), FEW, NOTHING),
    "a slow restart": (
        train(interruptions=OWN, restoring=13 * 600, podsPending=14 * 100, commits=20),
        FEW,
        ["CheckpointsTooRare", "11m until training runs again"],
    ),
}


@pytest.mark.parametrize(("job", "others", "expected"), CASES.values(), ids=CASES)
def test_the_advice_of_each_case(job: Object, others: JobLosses, expected: list[str]) -> None:
    found = advise(job, others)
    if not expected:
        assert found == []
        return
    [(reason, message)] = found
    assert reason == expected[0]
    assert all(words in message for words in expected[1:]), message


def test_the_whole_sentence_says_what_was_measured_and_what_would_be_gained() -> None:
    [(_, message)] = advise(train())
    assert message == (
        "So far the job commits a checkpoint every 30m of training and waits 12 s for each. With a loss every 7h54m "
        "(Meta's published rate for 1024 GPUs, since few losses are known here) and 24s until training runs again, "
        "this costs 3.9% of the time; a checkpoint every 13m would cost 3.0%."
    )


def test_a_job_without_a_checkpoint_reads_what_it_can_lose() -> None:
    job = train(commits=0, productive=4 * HOUR, checkpointing=0)
    job["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-25T08:00:00Z"
    [finding] = explain_job(make_snapshot(job))
    assert finding.reason == "NoCheckpoint"
    assert finding.message == (
        "The next loss takes back 4h of training on 1024 GPUs, which are 4,096 GPU-hours. One comes every 7h54m on "
        "average (Meta's published rate for 1024 GPUs, since few losses are known here)."
    )
    assert 'every="auto"' in finding.remedy


@pytest.mark.parametrize("job", [train(gpus=0, commits=0), train(commits=0, productive=0), make_running()])
def test_without_gpus_or_time_there_is_no_risk_to_name(job: Any) -> None:
    assert describe_risk(make_snapshot(job)) == ""


def test_a_status_of_nonsense_gives_no_advice() -> None:
    job = train()
    job["status"]["goodput"]["interruptions"] = {"Hardware": 5}
    job["status"]["goodput"]["productiveSeconds"] = 0
    assert advise(job) == []


def test_why_names_the_remedy() -> None:
    [finding] = explain_job(make_snapshot(train()))
    assert finding.reason == "CheckpointsTooRare"
    assert 'dcp.save(..., every="auto")' in finding.remedy


def test_a_job_that_only_trains_gets_the_advice_although_its_goodput_was_settled_when_it_started() -> None:
    job = train(gpus=8, productive=0, commits=3600, checkpointing=0)
    status = job["status"]
    status["goodput"] |= {"time": "2026-11-25T10:00:00Z", "gpuSeconds": 0}
    spent = {"productive": 3_600_000, "checkpointing": 3_540_000}
    status["progress"] = {"attempt": status["attempt"], "updateTime": "2026-11-25T11:59:00Z", "spent": spent}
    [(reason, message)] = advise(job)
    assert reason == "CheckpointsTooOften"
    assert "commits a checkpoint every 1s of training and waits 0.98 s for each" in message


@settings(max_examples=30, deadline=None)
@given(
    gpus=st.sampled_from([8, 64, 512, 1024, 4096, 16_384]),
    interval=st.floats(10, 6 * HOUR),
    stall=st.floats(0.01, 120),
    seed=st.integers(0, 2**16),
)
@example(gpus=8, interval=3600.0, stall=1.0, seed=0)
@example(gpus=16_384, interval=30.0, stall=0.1, seed=0)
def test_there_is_advice_exactly_where_a_simulation_gains_half_a_percent_by_the_best_interval(
    gpus: int, interval: float, stall: float, seed: int
) -> None:
    commits = max(3, round(1000 * HOUR / interval))
    job = train(gpus=gpus, productive=1000 * HOUR, commits=commits, checkpointing=round(commits * stall))
    spent = job["status"]["goodput"]
    mtbf = PUBLISHED_GPU_SECONDS / gpus
    costs = SaveCosts(spent["lostSeconds"]["checkpointing"] / commits, USUAL_DOWNTIME, mtbf)
    now = 1000 * HOUR / commits
    gain = simulate(costs, now, Random(seed)) - simulate(costs, costs.best_interval, Random(seed))
    noise = 0.002 + 0.03 * simulate(costs, now, Random(seed))
    found = advise(job)
    if gain < LEAST_GAIN - noise:
        assert found == []
    if gain > LEAST_GAIN + noise:
        [(reason, _)] = found
        assert (reason == "CheckpointsTooRare") == (costs.best_interval < now)
