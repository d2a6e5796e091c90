"""Sums at the end of a test run: the faults and schedules that it has tried, and the seconds of each folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

PREFIX = "tried: "
Tried = Callable[[str, int], None]


def note_tried(record_property: Callable[[str, object], None]) -> Tried:
    """A function for tests to call with a plural noun and a count; xdist workers pass it on."""
    return lambda what, count: record_property(PREFIX + what, count)


def sum_up(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Lines for the end of a run; none if nothing was tried."""
    reports = list(reports)
    failed = {report.nodeid for report in reports if report.failed}
    tried: Counter[str] = Counter()
    diverged: Counter[str] = Counter()
    for report in reports:
        if report.when != "teardown":  # the last report of a test, with all its records
            continue
        for key, count in report.user_properties:
            if key.startswith(PREFIX):
                what = key.removeprefix(PREFIX)
                tried[what] += int(str(count))
                diverged[what] += report.nodeid in failed
    return [
        f"{count} {what}: "
        + (f"{diverged[what]} tests FAILED, read there what diverged" if diverged[what] else "0 diverged")
        for what, count in sorted(tried.items())
    ]


def sum_up_seconds(reports: Iterable[pytest.TestReport], find_folder: Callable[[str], str]) -> list[str]:
    """Returns a line per folder, the slowest first. Tests that ran side by side count with their full time."""
    seconds: dict[str, float] = {}
    tests: dict[str, set[str]] = {}
    for report in reports:
        folder = find_folder(report.nodeid)
        seconds[folder] = seconds.get(folder, 0) + report.duration
        tests.setdefault(folder, set()).add(report.nodeid)
    slowest = sorted(seconds, key=lambda folder: -seconds[folder])
    return [f"{seconds[folder]:7.0f} s {len(tests[folder]):6} tests  {folder}" for folder in slowest]
