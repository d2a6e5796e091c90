"""How many faults and schedules a run of the tests has tried: noted by each test, summed up at the run's end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

PREFIX = "tried: "
Tried = Callable[[str, int], None]


def note_tried(record_property: Callable[[str, object], None]) -> Tried:
    """What a test calls with a plural noun and how many of it; processes of xdist pass it on."""
    return lambda what, count: record_property(PREFIX + what, count)


def sum_up(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Lines for the end of a run; none when nothing was tried."""
    reports = list(reports)
    failed = {report.nodeid for report in reports if report.failed}
    tried: Counter[str] = Counter()
    diverged: Counter[str] = Counter()
    for report in reports:
        if report.when != "teardown":  # the last of a test, with all that it has noted
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
