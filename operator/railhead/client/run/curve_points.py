"""The points of a curve as a chart draws them: by step or by time, smoothed, and no more than a screen shows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from railhead.client.run.curves import Curve
from railhead.contract.times import parse_time

Axis = Literal["step", "elapsed", "clock"]
AXES: tuple[Axis, ...] = ("step", "elapsed", "clock")
LEAST_POINTS = 4  # of a thinned curve
# Larger numbers are drawn there: a history may have any, and a browser has none beyond these.
LARGEST_STEP = 1 << 53
LARGEST_VALUE = 1e300


@dataclass(frozen=True)
class Point:
    """A point of a chart.

    Attributes:
        x: the step, or seconds since the curve's first value, or milliseconds since 1970.
        y: None = the value is not finite, which is a gap.
    """

    x: float
    y: float | None


def place_points(curve: Curve, axis: Axis, *, weight: float = 0.0, most: int) -> list[Point]:
    """Returns at most so many points, of which each stretch keeps its lowest and its highest value.

    `weight`: of what came before in each smoothed value, from 0, which leaves the values as they are, to below 1.
    """
    values = smooth(curve.values, weight)
    points = [Point(x, _limit(value)) for x, value in zip(_place(curve, axis), values, strict=True) if x is not None]
    return thin(points, most)


def smooth(values: Sequence[float], weight: float) -> list[float]:
    """Returns the exponential moving average, of which the first values are not pulled to 0. Gaps stay gaps."""
    if weight <= 0:
        return list(values)
    smoothed = []
    mean = 0.0
    share = 0.0  # of the weights that have been added up so far
    for value in values:
        if not math.isfinite(value):
            smoothed.append(value)
            continue
        mean = weight * mean + (1 - weight) * value
        share = weight * share + (1 - weight)
        smoothed.append(mean / share)
    return smoothed


def thin(points: Sequence[Point], most: int) -> list[Point]:
    """Returns at most so many of the points, in order: the lowest and the highest one of each stretch, and the ends."""
    if len(points) <= max(most, LEAST_POINTS):
        return list(points)
    stretches = max(1, (most - 2) // 2)
    inner = points[1:-1]
    kept = [points[0]]
    for number in range(stretches):
        stretch = inner[number * len(inner) // stretches : (number + 1) * len(inner) // stretches]
        kept += _choose(stretch)
    return [*kept, points[-1]]


def _choose(stretch: Sequence[Point]) -> Iterator[Point]:
    """Yields the lowest and the highest point in their order; a stretch without any value is a gap."""
    drawn = [(point.y, index) for index, point in enumerate(stretch) if point.y is not None]
    if not drawn:
        yield from stretch[:1]
        return
    for index in sorted({min(drawn)[1], max(drawn)[1]}):
        yield stretch[index]


def _place(curve: Curve, axis: Axis) -> Iterator[float | None]:
    """Yields the place of each value, None if its time is not known."""
    if axis == "step":
        for step in curve.steps:
            yield float(max(-LARGEST_STEP, min(step, LARGEST_STEP)))
        return
    first = None
    for text in curve.times:
        at = parse_time(text)
        if at is None:
            yield None
            continue
        first = first or at
        if axis == "elapsed":
            yield (at - first).total_seconds()
        else:
            yield at.timestamp() * 1000


def _limit(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    return max(-LARGEST_VALUE, min(value, LARGEST_VALUE))
