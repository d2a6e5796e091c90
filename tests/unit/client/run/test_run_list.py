"""What the records of runs say together: state, time and goodput of each, also of a hostile one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.client.run.run_list import (
    RunRow,
    build_row,
    choose_run_folder,
    count_goodput,
    judge_state,
    list_runs,
    list_uids_of_run,
)
from railhead.contract.failure import FailureClass
from railhead.contract.report import NO_CHECKPOINT, CommittedCheckpoint
from railhead.contract.run_record import RecordedAttempt, RecordedEnvironment, RecordedSpec, RunRecord
from railhead.contract.spent import Spent

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
FIRST = RecordedAttempt("u", 1, "p", "2026-11-28T10:00:00Z", "2026-11-28T10:40:00Z", outcome="Hang", reason="NoSteps")
SECOND = RecordedAttempt("u", 2, "q", "2026-11-28T10:50:00Z", "2026-11-28T11:58:00Z", workers=4)
BEST = CommittedCheckpoint("s3://b/runs/digits/c1", 1, "2026-11-28T11:00:00Z", {"loss": "0.25"}, 2)
RECORD = RunRecord(
    "ns",
    "digits",
    "u",
    run_uri="s3://b/runs/digits",
    spec=RecordedSpec(score_attribute="loss"),
    environment=RecordedEnvironment("image:1"),
    attempts=(FIRST, SECOND),
    checkpoint=replace(BEST, index=3),
    best_checkpoint=BEST,
)


@pytest.mark.parametrize(
    ("recorded", "shown"), [("https://t/runs/1", "https://t/runs/1"), ("javascript:alert(1)", ""), ("\x1b[2J", "")]
)
def test_a_row_has_a_link_only_if_it_is_one(recorded: str, shown: str) -> None:
    assert build_row("digits", replace(RECORD, tracker_url=recorded), now=NOW).tracker_url == shown


def test_a_row_has_what_a_reader_compares_runs_by() -> None:
    assert build_row("digits", RECORD, now=NOW) == RunRow(
        name="digits",
        namespace="ns",
        job="digits",
        state="Running",
        reason="",
        started="2026-11-28T10:00:00Z",
        seen="2026-11-28T11:58:00Z",
        seconds=118 * 60,
        attempts=2,
        workers=4,
        goodput=0.0,
        best_metric="loss 0.25",
        checkpoint=3,
        checkpoint_time="2026-11-28T11:00:00Z",
        image="image:1",
        tracker_url="",
    )


def test_a_run_without_checkpoint_or_score_has_none() -> None:
    row = build_row("digits", replace(RECORD, checkpoint=None, best_checkpoint=NO_CHECKPOINT), now=NOW)
    assert (row.checkpoint, row.checkpoint_time, row.best_metric) == (None, "", "")
    assert build_row("x", RunRecord("ns", "digits", "u"), now=NOW).state == "Lost"


@pytest.mark.parametrize(
    ("outcome", "seen", "state"),
    [
        ("", "2026-11-28T11:59:00Z", "Running"),
        ("", "2026-11-28T11:55:00Z", "Running"),
        ("", "2026-11-28T12:01:00Z", "Running"),  # by a clock that is ahead
        ("", "2026-11-28T11:54:59Z", "Lost"),
        ("", "yesterday", "Lost"),
        ("Succeeded", "2026-11-27T00:00:00Z", "Succeeded"),
        ("Preemption", "2026-11-28T12:00:00Z", "Stopped"),
        *((each.value, "2026-11-28T12:00:00Z", "Failed") for each in FailureClass if each != "Preemption"),
        ("OfANewerDriver", "2026-11-28T12:00:00Z", "Failed"),
    ],
)
def test_a_run_that_lives_is_told_from_one_that_died(outcome: str, seen: str, state: str) -> None:
    assert judge_state(replace(SECOND, outcome=outcome, seen=seen), now=NOW) == state


def test_the_newest_run_comes_first() -> None:
    older = replace(RECORD, attempts=(replace(FIRST, started="2026-11-27T10:00:00Z"),))
    rows = list_runs({"a": older, "b": RECORD, "c": RunRecord("ns", "n", "u")}, now=NOW)
    assert [row.name for row in rows] == ["b", "a", "c"]


def test_all_time_has_a_cause() -> None:
    first = replace(FIRST, spent=Spent(productive=30 * 60_000, starting=5 * 60_000, uncommitted=10 * 60_000))
    second = replace(SECOND, spent=Spent(productive=60 * 60_000, uncommitted=60_000, checkpointing=5 * 60_000))
    goodput = count_goodput(replace(RECORD, attempts=(first, second)))
    assert goodput.wall_seconds == 118 * 60
    assert goodput.productive_seconds == 80 * 60
    assert goodput.lost_seconds == {"starting": 300, "checkpointing": 300, "retrained": 600, "other": 18 * 60}
    assert goodput.percent == 67.8


@pytest.mark.parametrize(
    ("outcome", "is_last", "productive"),
    [("Succeeded", True, 60), ("", True, 60), ("", False, 40), ("Application", True, 40), ("Preemption", False, 40)],
)
def test_what_no_checkpoint_has_kept_is_lost_with_its_attempt(outcome: str, is_last: bool, productive: int) -> None:
    attempt = replace(FIRST, outcome=outcome, spent=Spent(productive=60_000, uncommitted=20_000))
    after = () if is_last else (replace(SECOND, outcome="Succeeded"),)
    assert count_goodput(replace(RECORD, attempts=(attempt, *after))).productive_seconds == productive


@given(
    st.lists(
        st.builds(
            Spent,
            productive=st.integers(-(10**30), 10**30),
            starting=st.integers(-5, 10**9),
            uncommitted=st.integers(-5, 10**12),
        ),
        max_size=3,
    ),
    st.text(),
)
def test_no_record_breaks_the_list(spents: list[Spent], text: str) -> None:
    attempts = tuple(replace(FIRST, number=number, spent=spent, seen=text) for number, spent in enumerate(spents))
    record = replace(RECORD, attempts=attempts, run_uri=text)
    (row,) = list_runs({"digits": record}, now=NOW)
    assert row.goodput is None or 0 <= row.goodput <= 100
    assert choose_run_folder("digits", record).split("/")[0]
    json.dumps(row.seconds)


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        ("s3://b/runs/digits", "digits"),
        ("s3://b/runs/digits?region=eu", "digits"),
        ("/runs/digits/mine", "digits/mine"),  # a run that the user's code has named
        ("/runs/digits-fit-2", "digits-fit-2"),
        ("/elsewhere/mine", "digits"),
        ("/runs/digits/..", "digits"),
        ("/runs/digits/%2e%2e", "digits/%2e%2e"),
        ("s3://b/runs/digits/%2e%2e", "digits"),
        ("", "digits"),
    ],
)
def test_the_folder_of_a_run_is_its_own_or_below_it(uri: str, folder: str) -> None:
    assert choose_run_folder("digits", replace(RECORD, run_uri=uri)) == folder


def test_the_logs_of_a_restored_job_are_those_of_the_jobs_before_it() -> None:
    def make(*attempts: tuple[str, int]) -> RunRecord:
        found = tuple(replace(FIRST, job=job, number=number) for job, number in attempts)
        return replace(RECORD, uid=attempts[-1][0], attempts=found)

    assert list_uids_of_run(make(("u", 1), ("u", 2), ("v", 3))) == ["v", "u"]
    assert list_uids_of_run(make(("u", 1), ("u", 2), ("v", 1), ("v", 2))) == ["v"]
    assert list_uids_of_run(replace(RECORD, attempts=())) == ["u"]
