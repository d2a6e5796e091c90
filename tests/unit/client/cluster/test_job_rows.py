"""A job in one row."""

from __future__ import annotations

from datetime import timedelta

import pytest

from railhead.client.cluster.job_rows import needs_pods, read_number, read_record, read_row
from railhead.client.explain.summary import summarize
from railhead.contract.times import describe_age, format_time
from railhead.json_object import Object
from tests.unit.client.jobs import (
    NOW,
    make_condition,
    make_failed,
    make_job,
    make_running,
    make_snapshot,
    make_waiting,
)


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-5, "0s"),
        (59, "59s"),
        (60, "1m"),
        (599, "9m59s"),
        (600, "10m"),
        (3599, "59m"),
        (3600, "1h"),
        (12_000, "3h20m"),
        (86_400, "1d"),
        (187_200, "2d4h"),
    ],
)
def test_an_age_has_its_two_largest_units(seconds: int, age: str) -> None:
    assert describe_age(format_time(NOW - timedelta(seconds=seconds)), NOW) == age


def test_a_time_that_is_none_has_no_age() -> None:
    assert describe_age("yesterday", NOW) == ""


@pytest.mark.parametrize(
    ("job", "waits_for"),
    [
        (make_waiting("Unschedulable"), "Unschedulable"),
        (make_waiting("Pending"), ""),
        (make_failed("Application", "TrainFunctionRaised"), "TrainFunctionRaised"),
        (make_job(phase="Queued", conditions=[make_condition("Suspended", "WaitingForQuota")]), "WaitingForQuota"),
        (make_job(phase="Queued", conditions=[make_condition("Suspended", "Queued")]), ""),
        (make_job(phase="Suspended", conditions=[make_condition("Suspended", "SuspendedByUser")]), ""),
        (make_running(others=[make_condition("HangSuspected", "NoSteps")]), "NoSteps"),
        (make_running(others=[make_condition("HangSuspected", "NoSteps", status="False")]), ""),
        (make_running(others=[make_condition("MetricRuleFired", "MetricRule")]), "MetricRule"),
        (make_job(conditions=[make_condition("Stalled", "InvalidSpec")]), "InvalidSpec"),
    ],
)
def test_what_a_job_waits_for(job: Object, waits_for: str) -> None:
    assert read_row(job).waits_for == waits_for


@pytest.mark.parametrize(
    ("progress", "text", "remaining"),
    [
        ({"percentComplete": 42, "step": 7, "remaining": "3h20m"}, "42%", "3h20m"),
        ({"step": 7}, "step 7", ""),
        ({}, "", ""),
    ],
)
def test_progress_is_the_percentage_else_the_step(progress: Object, text: str, remaining: str) -> None:
    row = read_row(make_running(progress=progress))
    assert (row.progress, row.remaining) == (text, remaining)


def test_a_job_that_hangs_has_no_remaining_time() -> None:
    """The last estimate is from before, and would never shrink."""
    progress = {"percentComplete": 42, "remaining": "3h20m", "estimatedRemainingSeconds": 12_000}
    hung = make_running(progress=progress, others=[make_condition("HangSuspected", "NoSteps")])
    assert (read_row(hung).remaining, read_record(hung).remaining_seconds) == ("", None)
    assert read_record(make_running(progress=progress)).remaining_seconds == 12_000


@pytest.mark.parametrize(
    "status", [None, {}, {"conditions": [make_condition("QuotaReserved", "Pending")]}, {"phase": 7}]
)
def test_a_job_that_no_operator_has_seen_says_so(status: Object | None) -> None:
    row = read_row({**make_job(), "status": status})
    assert (row.phase, row.progress, row.attempt, row.workers, row.waits_for) == ("(not seen)", "", 0, "", "")


@pytest.mark.parametrize(
    ("scaling", "gpus"),
    [
        ({"useGPU": True}, 3),
        ({"useGPU": True, "workersPerPod": 2, "resourcesPerWorker": {"nvidia.com/gpu": 4}}, 24),
        ({"useGPU": True, "gpuResourceName": "amd.com/gpu", "resourcesPerWorker": {"amd.com/gpu": "2"}}, 6),
        ({"useGPU": False, "resourcesPerWorker": {"cpu": 4}}, 0),
        ({"numWorkers": 3}, 0),
        ({"useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": None}}, 3),
    ],
)
def test_a_job_holds_the_gpus_of_its_running_pods(scaling: Object, gpus: int) -> None:
    job = make_running(spec={"scaling": scaling}, workers={"desired": 5, "ready": 3})
    assert read_row(job).gpus == gpus


@pytest.mark.parametrize(
    ("phase", "conditions", "needs"),
    [
        ("Running", [], True),
        ("Restarting", [], True),
        ("Succeeded", [make_condition("Complete", "Succeeded")], False),
        ("Failed", [make_condition("Failed", "TrainFunctionRaised")], False),
        ("Suspended", [], False),
        ("Queued", [], False),
    ],
)
def test_a_job_that_has_ended_or_rests_lacks_no_worker_pods(phase: str, conditions: list[Object], needs: bool) -> None:
    workers = {"desired": 2, "ready": 0}
    job = make_job(phase=phase, attempt=1, conditions=conditions, workers=workers)
    snapshot = make_snapshot(job)
    assert needs_pods(snapshot.status) is needs
    assert bool(read_row(job).workers) is needs
    assert ("Workers" in [fact.name for fact in summarize(snapshot).facts]) is needs


def test_a_record_has_the_numbers_behind_the_texts() -> None:
    progress = {"percentComplete": 42, "step": 7, "estimatedRemainingSeconds": 12_000, "remaining": "3h20m"}
    record = read_record(make_running(progress=progress, goodput={"percent": "93.1", "wallSeconds": 100}))
    assert (record.percent, record.step, record.remaining_seconds) == (42, 7, 12_000)
    assert (record.goodput, record.wall_seconds, record.row.remaining) == (93.1, 100, "3h20m")
    assert (record.uid, record.row.name) == ("uid-digits", "digits")


@pytest.mark.parametrize("text", [None, "", "much", "NaN", "inf", "1e999"])
def test_a_text_that_is_no_finite_number_is_not_known(text: str | None) -> None:
    assert read_number(text) is None
