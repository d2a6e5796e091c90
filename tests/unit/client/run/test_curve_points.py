"""The points of a curve in a chart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.client.run.curve_points import LARGEST_STEP, Axis, Point, place_points, smooth, thin
from railhead.client.run.curves import Curve

NAN = math.nan
TIMES = ("2026-11-25T10:00:00.000Z", "2026-11-25T10:00:30.000Z", "2026-11-25T11:00:00.000Z")


@pytest.mark.parametrize(
    ("axis", "places"),
    [("step", [10, 20, 30]), ("elapsed", [0, 30, 3600]), ("clock", [1795600800000, 1795600830000, 1795604400000])],
)
def test_a_curve_is_drawn_by_step_or_by_time(axis: Axis, places: list[float]) -> None:
    curve = Curve("digits", "loss", (3.0, 2.0, 1.0), (10, 20, 30), TIMES)
    points = place_points(curve, axis, most=100)
    assert [point.y for point in points] == [3, 2, 1]
    assert [point.x for point in points] == places


def test_a_value_that_is_not_finite_is_a_gap_and_numbers_stay_in_what_a_browser_has() -> None:
    curve = Curve("digits", "loss", (NAN, math.inf, 1e308), (1, 2, 1 << 70), TIMES)
    assert place_points(curve, "step", most=100) == [Point(1, None), Point(2, None), Point(LARGEST_STEP, 1e300)]


def test_a_value_without_a_time_is_left_out_where_time_counts() -> None:
    curve = Curve("digits", "loss", (3.0, 2.0, 1.0), (1, 2, 3), (TIMES[0], "yesterday", TIMES[2]))
    assert place_points(curve, "elapsed", most=100) == [Point(0, 3.0), Point(3600, 1.0)]
    assert len(place_points(curve, "step", most=100)) == 3


def test_smoothing_begins_at_the_first_value_and_keeps_gaps() -> None:
    smoothed = smooth([4.0, NAN, 0.0, 0.0], 0.5)
    assert smoothed[0] == 4.0
    assert math.isnan(smoothed[1])
    assert smoothed[2:] == pytest.approx([4 / 3, 4 / 7])
    assert smooth([4.0, 1.0], 0) == [4.0, 1.0]


def test_a_thinned_curve_keeps_its_spikes_and_its_ends() -> None:
    points = [Point(x, 1.0) for x in range(10_000)]
    points[4567] = Point(4567, 99.0)
    points[7001] = Point(7001, -99.0)
    kept = thin(points, 200)
    assert len(kept) <= 200
    assert {points[4567], points[7001], points[0], points[-1]} <= set(kept)


@given(
    st.lists(st.floats(allow_nan=True) | st.none(), max_size=300).map(
        lambda values: [Point(index, value) for index, value in enumerate(values)]
    ),
    st.integers(4, 100),
)
def test_thinning_leaves_points_of_the_curve_in_order(points: list[Point], most: int) -> None:
    kept = thin(points, most)
    assert len(kept) <= max(most, 4)
    assert [point.x for point in kept] == sorted(point.x for point in kept)
    assert {point.x for point in kept} <= {point.x for point in points}
