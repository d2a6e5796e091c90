"""The attempts of a job as stretches of time."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.client.explain.attempt_spans import Span, list_spans
from railhead.contract.times import format_time
from railhead.json_object import Object
from tests.unit.client.jobs import make_condition, make_job, make_snapshot

FIRST = {
    "number": 1,
    "startTime": "2026-11-25T10:01:00Z",
    "runningTime": "2026-11-25T10:02:00Z",
    "completionTime": "2026-11-25T11:00:00Z",
    "class": "Hardware",
    "reason": "GPUFailed",
    "node": "gpu-7",
}
SECOND = {"number": 2, "startTime": "2026-11-25T11:05:00Z", "runningTime": "2026-11-25T11:06:00Z"}
LOSS = {"time": "2026-11-25T11:30:00.000Z", "attempt": 2, "event": "lostPods", "pods": ["w3"]}
GROUP = {"time": "2026-11-25T11:31:00.000Z", "attempt": 2, "event": "group", "workers": 4}


def show(job: Object, *journal: dict[str, Any]) -> list[tuple[int, str, str, str, str]]:
    def write(span: Span) -> tuple[int, str, str, str, str]:
        end = format_time(span.end)[11:16]
        return span.attempt, span.kind, format_time(span.begin)[11:16], end + "…" * span.is_open, span.cause

    return [write(span) for span in list_spans(make_snapshot(job), journal)]


def test_a_gap_has_the_cause_that_ended_the_attempt_before_it() -> None:
    assert show(make_job(phase="Running", attempt=2, attempts=[FIRST, SECOND])) == [
        (0, "waiting", "10:00", "10:01", "before the first attempt"),
        (1, "starting", "10:01", "10:02", "pods and Ray start"),
        (1, "training", "10:02", "11:00", "Hardware GPUFailed on gpu-7"),
        (1, "gap", "11:00", "11:05", "Hardware GPUFailed on gpu-7"),
        (2, "starting", "11:05", "11:06", "pods and Ray start"),
        (2, "training", "11:06", "12:00…", ""),
    ]


def test_the_journal_shows_restarts_within_an_attempt() -> None:
    spans = show(make_job(phase="Running", attempt=2, attempts=[SECOND]), LOSS, GROUP, {**LOSS, "attempt": 1})
    assert spans[1:] == [
        (2, "training", "11:06", "11:30", ""),
        (2, "restarting", "11:30", "11:31", "lost w3"),
        (2, "training", "11:31", "12:00…", ""),
    ]


def test_a_restart_that_lasts_is_known_without_the_journal() -> None:
    waiting = make_condition("Reconciling", "PodsLost")  # since 11:48
    spans = show(make_job(phase="Restarting", attempt=2, attempts=[SECOND], conditions=[waiting]))
    assert spans[1:] == [
        (2, "training", "11:06", "11:48", ""),
        (2, "restarting", "11:48", "12:00…", "PodsLost"),
    ]


def test_a_job_that_waits_has_one_open_span() -> None:
    assert show(make_job(phase="Queued")) == [(0, "waiting", "10:00", "12:00…", "Queued")]


def test_an_attempt_that_never_trained_was_starting() -> None:
    never = {key: value for key, value in FIRST.items() if key != "runningTime"}
    spans = show(make_job(phase="Pending", attempt=1, attempts=[never]))
    assert spans[1:] == [
        (1, "starting", "10:01", "11:00", "Hardware GPUFailed on gpu-7"),
        (1, "gap", "11:00", "12:00…", "Hardware GPUFailed on gpu-7"),
    ]


def test_nothing_follows_the_end_of_a_finished_job() -> None:
    ended = make_condition("Failed", "BackoffLimitExceeded")
    assert show(make_job(phase="Failed", attempt=1, attempts=[FIRST], conditions=[ended]))[-2:] == [
        (1, "training", "10:02", "11:00", "Hardware GPUFailed on gpu-7"),
        (1, "end", "11:00", "11:00", "Hardware GPUFailed on gpu-7"),
    ]


def test_a_job_that_fails_while_it_restarts_has_the_cause_of_both() -> None:
    ended = make_condition("Failed", "BackoffLimitExceeded")
    loss = {**LOSS, "attempt": 1, "time": "2026-11-25T10:50:00.000Z"}
    assert show(make_job(phase="Failed", attempt=1, attempts=[FIRST], conditions=[ended]), loss)[-2:] == [
        (1, "restarting", "10:50", "11:00", "lost w3"),
        (1, "end", "11:00", "11:00", "Hardware GPUFailed on gpu-7"),
    ]


def test_a_job_that_succeeds_has_no_mark_of_its_end() -> None:
    done = make_condition("Complete", "Succeeded")
    attempt = {**FIRST, "class": "Succeeded", "reason": "Succeeded", "node": ""}
    assert show(make_job(phase="Succeeded", attempt=1, attempts=[attempt], conditions=[done]))[-1][1] == "training"


@pytest.mark.parametrize("journal", [{**LOSS, "time": "yesterday"}, {**LOSS, "event": 7}, {**LOSS, "pods": "w3"}])
def test_a_damaged_journal_costs_nothing_else(journal: dict[str, Any]) -> None:
    spans = show(make_job(phase="Running", attempt=2, attempts=[SECOND]), journal)
    assert spans[0][1] == "starting"
    assert spans[-1][3] == "12:00…"


def test_times_that_are_none_have_no_spans() -> None:
    assert show(make_job(phase="Running", attempt=1, attempts=[{"number": 1, "startTime": "?"}])) == []
