"""The sums at the end of a run."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.tried import note_tried, sum_up, sum_up_seconds


def make_reports(name: str, counts: dict[str, int], *, outcome: Literal["passed", "failed"]) -> list[pytest.TestReport]:
    """Of one test: its call, and its teardown with all its records."""
    noted: list[tuple[str, object]] = []
    note = note_tried(lambda key, value: noted.append((key, value)))
    for what, count in counts.items():
        note(what, count)
    place = ("test_x.py", 1, name)
    return [
        pytest.TestReport(f"test_x.py::{name}", place, {}, outcome, None, "call", user_properties=noted),
        pytest.TestReport(f"test_x.py::{name}", place, {}, "passed", None, "teardown", user_properties=noted),
    ]


def test_counts_are_summed_and_failed_tests_reported() -> None:
    assert sum_up([]) == []
    good = make_reports("a", {"kills": 3, "hangs": 1}, outcome="passed") + make_reports(
        "b", {"kills": 4}, outcome="passed"
    )
    assert sum_up(good) == ["1 hangs: 0 diverged", "7 kills: 0 diverged"]
    bad = make_reports("c", {"kills": 2}, outcome="failed")
    assert sum_up(good + bad)[1] == "9 kills: 1 tests FAILED, read there what diverged"


def test_seconds_are_summed_by_folder_the_slowest_first() -> None:
    reports = [
        pytest.TestReport(nodeid, ("x.py", 1, "x"), {}, "passed", None, "call", duration=seconds)
        for nodeid, seconds in (
            ("tests/unit/a.py::x", 1.0),
            ("tests/unit/a.py::x", 2.0),
            ("tests/ray/b.py::y", 9.6),
        )
    ]
    lines = sum_up_seconds(reports, lambda nodeid: nodeid.split("/")[1])
    assert lines == ["     10 s      1 tests  ray", "      3 s      1 tests  unit"]
