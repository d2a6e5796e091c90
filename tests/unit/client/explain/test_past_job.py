"""A run of a storage in the shape that views of a job read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from railhead.client.explain.attempt_spans import list_spans
from railhead.client.explain.lost_time import divide_time
from railhead.client.explain.past_job import MEANINGS, PastSnapshot, build_snapshot, describe_recorded, summarize_past
from railhead.client.explain.timeline import build_timeline
from railhead.contract.report import CommittedCheckpoint
from railhead.contract.run_record import RecordedAttempt, RecordedSpec, RunRecord
from railhead.contract.spent import Spent

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
FIRST = RecordedAttempt(
    *("uid-old", 1, "p1", "2026-11-25T08:00:00Z", "2026-11-25T09:00:00Z"),
    outcome="Hardware",
    reason="GPUFailed",
    spent=Spent(starting=60_000, productive=3_000_000),
)
LAST = RecordedAttempt(*("uid", 2, "p2", "2026-11-25T09:10:00Z", "2026-11-25T11:00:00Z"), spent=Spent(starting=60_000))
RECORD = RunRecord(
    *("team-a", "digits", "uid", "s3://b/r/digits"),
    RecordedSpec(train_func="train:f", num_workers=4, score_attribute="loss"),
    attempts=(FIRST, LAST),
    checkpoint=CommittedCheckpoint("s3://b/r/digits/c1", 1, "2026-11-25T10:00:00Z", {"loss": "0.5"}, 2),
    tracker_url="https://tracker.example/runs/1",
)


def open_run(seen: str = LAST.seen, outcome: str = "", reason: str = "") -> PastSnapshot:
    last = replace(LAST, seen=seen, outcome=outcome, reason=reason)
    record = replace(RECORD, attempts=(FIRST, last))
    return build_snapshot("digits", record, "/runs/digits", now=NOW)


@pytest.mark.parametrize(
    ("last", "state", "reason", "end"),
    [
        ({"seen": "2026-11-25T11:58:00Z"}, "Running", "Running", None),
        ({}, "Lost", "Lost", "Lost"),
        ({"outcome": "Succeeded"}, "Succeeded", "Succeeded", None),
        ({"outcome": "Preemption", "reason": "Terminated"}, "Stopped", "Stopped", None),
        ({"outcome": "OutOfMemory", "reason": "OOMKilled"}, "Failed", "OOMKilled", "OutOfMemory OOMKilled"),
    ],
)
def test_a_run_that_lives_is_told_from_one_that_died(
    last: dict[str, str], state: str, reason: str, end: str | None
) -> None:
    snapshot = open_run(**last)
    assert snapshot.row.state == state
    assert summarize_past(snapshot).findings[0].reason == reason
    assert snapshot.status.tracker_url == "https://tracker.example/runs/1"
    spans = list_spans(snapshot)
    assert [span.kind for span in spans][:5] == ["starting", "training", "gap", "starting", "training"]
    assert [span.kind for span in spans if span.is_open] == (["training"] if state == "Running" else [])
    assert [span.cause for span in spans if span.kind == "end"] == ([] if end is None else [end])


def test_the_attempts_time_and_checkpoints_are_those_of_the_record() -> None:
    snapshot = open_run(outcome="Succeeded")
    assert snapshot.status.checkpoint is not None
    assert snapshot.status.checkpoint.uri == "s3://b/r/digits/c1"
    assert sum(part.seconds for part in divide_time(snapshot.status)) == 3 * 3600
    whats = [moment.what for moment in build_timeline(snapshot)]
    assert whats[:3] == ["AttemptStarted", "Training", "AttemptEnded"]


def test_each_state_says_what_to_do() -> None:
    for cause, remedy in MEANINGS.values():
        assert cause.endswith(".")
        assert remedy.endswith(".")


def test_a_record_that_holds_nonsense_costs_only_its_part() -> None:
    odd = replace(FIRST, number=-3, started="yesterday", seen="")
    record = replace(RECORD, attempts=(odd,), metrics={"x" * 10_000: "1"})
    snapshot = build_snapshot("digits", record, "/runs/digits", now=NOW + timedelta(days=1))
    assert summarize_past(snapshot).findings
    assert list_spans(snapshot) == []


def test_what_is_empty_is_left_out_of_what_a_run_was() -> None:
    assert describe_recorded(RECORD) == {
        "spec": {"train_func": "train:f", "num_workers": 4, "score_attribute": "loss"},
        "environment": {},
    }
