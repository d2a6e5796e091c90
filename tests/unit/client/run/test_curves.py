"""Curves of a run's metrics."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from railhead.client.run.curves import (
    build_curves,
    compute_range,
    describe_gaps,
    draw,
    drop_repeated,
    read_reports,
    write_csv,
)
from railhead.history import History


def record(attempt: int, step: int | None, **metrics: Any) -> dict[str, Any]:
    return {"time": f"t{attempt}", "attempt": attempt, "report": 1, "step": step, "metrics": metrics}


def make_history(*records: dict[str, Any]) -> History:
    return History(tuple(records))


def test_steps_that_were_made_again_are_in_a_curve_once() -> None:
    steps = [(1, 10), (1, 20), (1, 30), (2, 20), (2, 20), (2, 30), (2, 15), (2, 40)]
    history = make_history(*(record(attempt, step, loss=index) for index, (attempt, step) in enumerate(steps)))
    kept = drop_repeated(read_reports("a", history))
    assert [(each.attempt, each.step, each.metrics["loss"]) for each in kept] == [(1, 10, 0), (2, 15, 6), (2, 40, 7)]


def test_a_curve_has_the_step_of_each_value_or_the_number_of_its_report() -> None:
    history = make_history(record(1, 10, loss=3), record(1, 20, other=1), record(1, 30, loss=2))
    by_step = read_reports("a", history, ["loss"])
    by_report = read_reports("b", make_history(record(1, None, loss=5)))
    assert [(curve.job, curve.steps, curve.values) for curve in build_curves([*by_step, *by_report])] == [
        ("a", (10, 30), (3, 2)),
        ("b", (1,), (5,)),
    ]


def test_without_steps_and_between_jobs_nothing_is_dropped() -> None:
    plain = read_reports("a", make_history(record(1, None, loss=1), record(2, None, loss=2)))
    other = read_reports("b", make_history(record(1, 1, loss=3)))
    first = read_reports("a", make_history(record(1, 5, loss=4)))
    assert drop_repeated([*plain, *first, *other]) == [*plain, *first, *other]


def test_numbers_become_curves_by_metric_and_job() -> None:
    history = make_history(
        record(1, 1, loss=2, name="x", ok=True, eval={"acc": 0.5}, none=None),
        record(1, 2, loss="NaN", huge=10**400, list=[1]),
    )
    curves = build_curves([*read_reports("b", history), *read_reports("a", history)])
    assert [(each.metric, each.job) for each in curves] == [
        *(("loss", job) for job in "ab"),
        *(("eval.acc", job) for job in "ab"),
        *(("huge", job) for job in "ab"),
    ]
    assert curves[0].values[0] == 2 and math.isnan(curves[0].values[1])
    assert compute_range(curves[:2]) == (2, 2)
    assert [each.metric for each in build_curves(read_reports("a", history, ["eval.acc"]))] == ["eval.acc"]


def test_a_record_of_any_form_is_read() -> None:
    [report] = read_reports("a", make_history({"time": "t", "attempt": 1, "report": "x", "step": 1.5, "metrics": [1]}))
    assert (report.report, report.step, report.metrics) == (None, None, {})


def test_bars_show_low_and_high_and_what_is_not_finite() -> None:
    assert draw([0, 1, 2, 3], 8, low=0, high=3) == "▁▃▆█"
    assert draw(list(range(100)), 4, low=0, high=99) == "▂▄▆█"
    assert draw([math.nan, 1.0, math.inf], 8, low=1, high=1) == "·▅·"
    assert draw([-1e308, 1e308], 8, low=-1e308, high=1e308) == "▁█"


def test_csv_has_a_row_per_report_and_no_formula() -> None:
    history = make_history(record(1, 3, **{"=cmd()": 1, "loss": -0.5, "note": '@x,"y"'}), record(2, None, other="-1+1"))
    rows = list(csv.reader(io.StringIO(write_csv(read_reports("j", history)))))
    assert rows == [
        ["job", "attempt", "time", "report", "step", "'=cmd()", "loss", "note", "other"],
        ["j", "1", "t1", "1", "3", "1", "-0.5", '\'@x,"y"', ""],
        ["j", "2", "t2", "1", "", "", "", "", "'-1+1"],
    ]


def test_gaps_are_sentences() -> None:
    assert describe_gaps(History(), "here") == []
    assert len(describe_gaps(History((), skipped=1, dropped=2, every=4), "here")) == 3
