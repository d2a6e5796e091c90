"""What slows a job down, by the numbers of its status."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api.status import parse_status
from railhead.client.explain.slowness import explain_slowness
from railhead.client.explain.why import explain_job
from railhead.json_object import Object
from tests.unit.client.jobs import make_running, make_snapshot


def find(goodput: Object, **status: Any) -> list[str]:
    return [reason for reason, _ in explain_slowness(parse_status({"goodput": goodput, **status}))]


def lose(wall: int = 3600, **lost: int) -> Object:
    return {"wallSeconds": wall, "productiveSeconds": wall - sum(lost.values()), "lostSeconds": lost}


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ("checkpointing", "SlowCheckpoints"),
        ("retrained", "TrainingRepeated"),
        ("restoring", "RestartsCostTime"),
        ("queued", "PodsCameLate"),
        ("podsPending", "PodsCameLate"),
        ("hanging", "HangsCostTime"),
    ],
)
def test_a_tenth_of_the_time_is_a_finding(lost: str, reason: str) -> None:
    assert find(lose(**{lost: 360})) == [reason]
    assert find(lose(**{lost: 359})) == []
    assert find(lose(599, **{lost: 300})) == [], "too short to say anything"


def test_the_most_expensive_cause_comes_first_and_time_that_a_user_took_is_none() -> None:
    assert find(lose(queued=200, podsPending=300, retrained=400, suspended=1800, starting=400)) == [
        "PodsCameLate",
        "TrainingRepeated",
    ]


@pytest.mark.parametrize(
    ("change", "is_found"),
    [
        ({}, True),
        ({"stepsPerSecond": "2.4"}, False),
        ({"stepsPerSecond": "fast"}, False),
        ({"stepsPerSecond": None}, False),
        ({"step": None}, False),
    ],
)
def test_a_rate_below_the_average_is_a_finding(change: Object, is_found: bool) -> None:
    progress = {"step": 4000, "stepsPerSecond": "2.39", **change}
    assert find(lose(1000), progress=progress) == ["RateFell"] * is_found
    assert find(lose(599), progress=progress) == []
    assert find(lose(1000), progress=progress, initialCheckpoint={"uri": "s3://b/c"}) == [], "steps of another job"


def test_why_tells_the_numbers_of_a_job_that_trains() -> None:
    progress = {"updateTime": "2026-11-25T11:59:00Z"}
    job = make_running(checkpoint={"uri": "s3://b/c", "index": 1}, goodput=lose(checkpointing=900), progress=progress)
    [finding] = explain_job(make_snapshot(job))
    assert finding.reason == "SlowCheckpoints"
    assert finding.message == "900 of 3600 s, 25% of the job's time"
    assert "checkpoint_upload_mode=CheckpointUploadMode.ASYNC" in finding.remedy
