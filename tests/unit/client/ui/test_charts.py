"""The pictures, as what the browser gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from railhead.client.explain.attempt_spans import Span
from railhead.client.explain.lost_time import TITLES, SpentTime
from railhead.client.run.curve_points import AXES, Point
from railhead.client.ui.charts import (
    CAUSES,
    MOST_CAUSE,
    Options,
    RunLine,
    describe_span,
    draw_curves,
    draw_goodput,
    draw_timeline,
    measure_timeline,
)

BEGIN = datetime(2026, 11, 25, 10, tzinfo=UTC)
HOSTILE = (":onclick", "{a}\x1b[2J", "<img src=x onerror=alert(1)>", "\u202egnp")


def make_span(attempt: int, kind: str, begin: int, end: int, cause: str = "", *, is_open: bool = False) -> Span:
    at = BEGIN + timedelta(minutes=begin)
    return Span(attempt, kind, at, BEGIN + timedelta(minutes=end), cause, is_open)  # type: ignore[arg-type]


def read_series(options: Options) -> list[dict[str, Any]]:
    series = options["series"]
    assert isinstance(series, list)
    return series


def list_keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from list_keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from list_keys(each)


def test_a_span_is_a_bar_after_an_offset_in_the_row_of_its_attempt() -> None:
    spans = [make_span(1, "training", 0, 60), make_span(1, "gap", 60, 90, "lost"), make_span(2, "training", 90, 240)]
    options = draw_timeline(spans)
    bars = [(each.get("name"), each["data"]) for each in read_series(options)]
    assert bars[1] == ("Training for 1h", [1.0])
    assert bars[2:4] == [(None, [1.0]), ("Gap for 30m: lost", [0.5])]
    assert bars[4:6] == [(None, [None, 1.5]), ("Training for 2h30m", [None, 2.5])]
    assert measure_timeline(spans) > measure_timeline(spans[:1])


def test_the_end_of_a_failed_job_is_a_mark_with_its_cause() -> None:
    options = draw_timeline([make_span(1, "training", 0, 600, "lost"), make_span(1, "end", 600, 600, "lost")])
    bars = [(each.get("name"), each["data"]) for each in read_series(options)]
    assert bars[1][0] == "Training for 10h, until lost"
    assert bars[2][1][0] + bars[3][1][0] == pytest.approx(10)
    assert bars[3][0] == "Ended: lost"
    assert bars[3][1][0] > 0


def test_a_cause_that_is_cut_ends_with_dots() -> None:
    described = describe_span(make_span(1, "gap", 0, 5, "x" * (MOST_CAUSE + 1)))
    assert described.endswith("x ...")


def test_nothing_known_is_an_empty_picture() -> None:
    assert draw_timeline([]) == {"series": []}
    assert draw_goodput([])["series"] == []
    assert draw_curves([], "step", is_logarithmic=False)["series"] == []


def test_a_span_in_words() -> None:
    assert (
        describe_span(make_span(1, "restarting", 0, 5, "lost w3", is_open=True)) == "Restarting for 5m so far: lost w3"
    )


def test_each_cause_has_a_colour() -> None:
    assert set(CAUSES) == set(TITLES)


def test_a_logarithmic_axis_leaves_out_what_has_no_logarithm() -> None:
    line = RunLine("digits", (Point(0, 1.0), Point(1, 0.0), Point(2, -1.0), Point(3, None)))
    [series] = read_series(draw_curves([line], "step", is_logarithmic=True))
    assert series["data"] == [[0, 1.0], [1, None], [2, None], [3, None]]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_never_a_key_a_formatter_or_a_control_character(axis: str, text: str) -> None:
    options = [
        draw_timeline([make_span(1, "gap", 0, 60, text)]),
        draw_goodput([SpentTime("other", "Other", 5, 1.0)]),
        draw_curves([RunLine(text, (Point(0, 1.0),))], axis, is_logarithmic=False),  # type: ignore[arg-type]
    ]
    for each in options:
        assert not any(key.startswith(":") or text in key for key in list_keys(each))
        assert "\\u001b" not in json.dumps(each)
        assert each["tooltip"]["renderMode"] == "richText"  # type: ignore[index]
        assert "\\u202e" not in json.dumps({**each, "series": None})
