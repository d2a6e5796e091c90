"""The timeline of a job, with its gaps."""

from __future__ import annotations

import pytest

from railhead.api.attempts import Attempt
from railhead.client.explain.timeline import Moment, build_timeline, describe_end, read_moments
from railhead.history import History
from railhead.json_object import Object
from tests.unit.client.jobs import make_event, make_failed, make_job, make_snapshot


def timeline(job: Object, *events: Object) -> list[Moment]:
    return build_timeline(make_snapshot(job, events=events))


ATTEMPTS = [
    {
        "number": 3,
        "startTime": "2026-11-25T11:10:00Z",
        "runningTime": "2026-11-25T11:12:00Z",
        "completionTime": "2026-11-25T11:30:00Z",
        "class": "Hardware",
        "reason": "GPUFailed",
        "node": "gpu-7",
        "rounds": 2,
    },
    {"number": 4, "startTime": "2026-11-25T11:31:00Z"},
]


def test_attempts_events_and_conditions_are_in_order_and_gaps_are_named() -> None:
    job = make_failed("Application", "TrainFunctionRaised")
    job["status"] |= {"attempts": ATTEMPTS, "completionTime": "2026-11-25T11:58:00Z"}
    events = [make_event("Restarting", "gpu-7 failed", "2026-11-25T11:30:01Z", 2)]
    assert [(each.time[11:19], each.what, each.details) for each in timeline(job, *events)] == [
        ("10:00:00", "Created", ""),
        ("11:10:00", "Gap", "attempts 1 to 2 are not in the status any more"),
        ("11:10:00", "AttemptStarted", "attempt 3"),
        ("11:12:00", "Training", "attempt 3 trains for the first time"),
        ("11:30:00", "AttemptEnded", "attempt 3: Hardware GPUFailed on gpu-7, rounds 2"),
        ("11:30:01", "Gap", "earlier events are not known any more"),
        ("11:30:01", "Restarting", "gpu-7 failed (2 times)"),
        ("11:31:00", "AttemptStarted", "attempt 4"),
        ("11:48:00", "Failed", "True: TrainFunctionRaised"),
        ("11:48:00", "Stalled", "True: TrainFunctionRaised"),
        ("11:58:00", "Failed", "TrainFunctionRaised (Application)"),
    ]


def test_a_young_job_has_no_gap() -> None:
    job = make_job(phase="Pending")
    job["metadata"]["creationTimestamp"] = "2026-11-25T11:30:00Z"
    assert [each.what for each in timeline(job)] == ["Created"]


def test_an_old_job_without_events_has_lost_them_all() -> None:
    assert [each.details for each in timeline(make_job(phase="Pending"))] == ["", "no events are known"]


@pytest.mark.parametrize(
    ("attempt", "end"),
    [
        (Attempt(number=1), "lasts"),
        (Attempt(number=1, class_="Succeeded"), "Succeeded"),
        (Attempt(number=1, class_="OutOfMemory", reason="OutOfMemory"), "OutOfMemory"),
        (Attempt(number=1, class_="Hang", reason="NoSteps", node="n"), "Hang NoSteps on n"),
    ],
)
def test_the_end_of_an_attempt_is_a_phrase(attempt: Attempt, end: str) -> None:
    assert describe_end(attempt) == end


def test_records_become_moments_and_what_is_missing_a_gap() -> None:
    records = (
        {"time": "2026-11-25T10:00:00.250Z", "attempt": 1, "event": "group", "workers": 4, "workersBefore": None},
        {"time": "2026-11-25T10:01:00.000Z", "attempt": 1, "event": "lostPods", "pods": ["a", "b"]},
        {"time": "2026-11-25T10:02:00.000Z", "attempt": 1, "event": "of a later version", "reason": "R"},
    )
    assert list(read_moments(History(records, skipped=1))) == [
        Moment("2026-11-25T10:00:00.250Z", "Gap", "1 lines in the journal cannot be read.", "gap"),
        Moment("2026-11-25T10:00:00.250Z", "WorkerGroup", "attempt 1, workers 4", "journal"),
        Moment("2026-11-25T10:01:00.000Z", "LostPods", 'attempt 1, pods ["a", "b"]', "journal"),
        Moment("2026-11-25T10:02:00.000Z", "Of a later version", "attempt 1, reason R", "journal"),
    ]


def test_the_moments_are_sorted_among_the_others() -> None:
    journal = [Moment("2026-11-25T10:00:00.001Z", "State", "", "journal")]
    assert [each.what for each in build_timeline(make_snapshot(make_job()), journal)][:2] == ["Created", "State"]
