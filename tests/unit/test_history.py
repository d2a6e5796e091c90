"""The history of a run from its files: order, and the sums of what is missing."""

from __future__ import annotations

from typing import Any

from railhead.contract.history_format import METRICS, Header, write_line
from railhead.history import History, read_history


def segment(*numbers: int, attempt: int = 1, job: str = "j", time: str = "t", **header: Any) -> bytes:
    records = [{"time": f"{time}{number}", "attempt": attempt, "n": number} for number in numbers]
    return b"".join([Header(METRICS, job, **header).to_line(), *map(write_line, records)])


def test_records_come_in_the_order_of_attempts_and_segments() -> None:
    history = read_history(
        {
            "10-b-1.jsonl": segment(6, attempt=10),
            "2-a-10.jsonl": segment(5, attempt=2),
            "2-a-9.jsonl": segment(3, 4, attempt=2),
            "1-c-1.jsonl": segment(1, 2),
        }
    )
    assert [record["n"] for record in history.records] == [1, 2, 3, 4, 5, 6]
    assert (history.skipped, history.dropped, history.every) == (0, 0, 1)


def test_a_job_that_continues_a_run_comes_after_the_one_before() -> None:
    """Both begin with attempt 1, so only clocks order them. Within a job a wrong clock does no harm."""
    files = {
        "1-f-1.jsonl": segment(1, job="first", time="2026-01-01"),
        "2-a-1.jsonl": segment(2, job="first", attempt=2, time="2025-12-31"),
        "1-b-1.jsonl": segment(3, job="second", time="2026-02-01"),
        "1-c-1.jsonl": b"no header\n",
    }
    assert [record["n"] for record in read_history(files).records] == [1, 2, 3]
    assert [record["n"] for record in read_history(files, job="second").records] == [3]
    assert read_history(files, job="second").skipped == 1
    assert [record["n"] for record in read_history(files, job=("second", "first")).records] == [1, 2, 3]
    assert not read_history(files, job=("third",)).records


def test_two_heads_of_one_attempt_are_ordered_by_their_clocks() -> None:
    files = {"1-b-1.jsonl": segment(1), "1-b-2.jsonl": segment(2), "1-a-1.jsonl": segment(3), "1-a-2.jsonl": segment()}
    assert [record["n"] for record in read_history(files).records] == [1, 2, 3]


def test_the_last_header_of_each_head_says_how_many_it_dropped() -> None:
    files = {"1-a-1.jsonl": segment(1), "1-a-5.jsonl": segment(2, dropped=7), "2-b-2.jsonl": segment(3, dropped=1)}
    assert read_history(files).dropped == 8


def test_the_thinnest_segment_counts_and_torn_lines_are_summed() -> None:
    files = {"1-a-1.jsonl": segment(1, every=4) + b"{", "1-a-2.jsonl": segment(2, every=2) + b"x\n{"}
    history = read_history(files)
    assert (len(history.records), history.every, history.skipped) == (2, 4, 3)


def test_other_files_are_ignored() -> None:
    assert read_history({"1-a-1.jsonl.new": segment(1), "notes.txt": b"x"}) == History()
