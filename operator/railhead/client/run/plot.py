"""Curves as a picture, by matplotlib, which few installations of the command line have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.curves import Curve
from railhead.contract.numbers import name_not_finite
from railhead.contract.text import clean_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
MOST_METRICS = 12
MOST_ROWS = 20  # of crosses, before they come closer to each other
# larger ones are drawn there: a history may have any number
LARGEST_STEP = 1 << 53
LARGEST_VALUE = 1e300


def check_plot(file: Path) -> None:
    """Raises ClientError if no picture can be written under this name, or matplotlib is not installed."""
    if file.suffix not in FORMATS:
        raise ClientError(f"--plot {file}: the name ends with {' or '.join(FORMATS)}", ExitCode.USAGE)
    if find_spec("matplotlib") is None:
        raise ClientError("--plot needs the package matplotlib: pip install 'railhead-train[plot]'")


def write_plot(curves: Sequence[Curve], file: Path) -> None:
    """Draws a panel for each metric, with a line for each job.

    Raises:
        ClientError: there are no curves, or too many metrics, or the file cannot be written.
    """
    from matplotlib.figure import Figure

    metrics = list(dict.fromkeys(curve.metric for curve in curves))
    if not 0 < len(metrics) <= MOST_METRICS:
        message = f"{len(metrics)} metrics have numbers; a picture has 1 to {MOST_METRICS}, chosen by --metric"
        raise ClientError(message, ExitCode.USAGE)
    figure = Figure(figsize=(8, 3 * len(metrics)), layout="constrained")
    for number, metric in enumerate(metrics, 1):
        axes = figure.add_subplot(len(metrics), 1, number)
        axes.set_title(clean_line(metric), parse_math=False)
        drawn = [curve for curve in curves if curve.metric == metric]
        for row, curve in enumerate(drawn):
            _draw_curve(axes, curve, height=0.02 + 0.9 * row / max(len(drawn), MOST_ROWS))
        axes.legend()
    try:
        figure.savefig(file)
    except OSError as error:
        raise ClientError(f"cannot write {file}: {error.strerror}") from None


def _draw_curve(axes: Axes, curve: Curve, *, height: float) -> None:
    """Draws the line, and a cross at this height of the panel at each step without a finite value."""
    steps = [max(-LARGEST_STEP, min(step, LARGEST_STEP)) for step in curve.steps]
    values = list(map(_limit, curve.values))
    (line,) = axes.plot(steps, values, marker=_choose_marker(values), label=curve.job)
    odd = [(step, value) for step, value in zip(steps, curve.values, strict=True) if not math.isfinite(value)]
    if not odd:
        return
    first, value = odd[0]
    axes.plot(
        [step for step, _ in odd],
        [height] * len(odd),
        transform=axes.get_xaxis_transform(),
        linestyle="",
        marker="x",
        color=line.get_color(),
        label=f"{curve.job}: {name_not_finite(value)} from step {first}, {len(odd)} of {len(steps)}",
    )


def _choose_marker(values: Sequence[float]) -> str:
    """Returns a point where a value has no finite neighbour, so that a line would not show it."""
    is_alone = any(
        math.isfinite(value) and not any(map(math.isfinite, (*values[max(at - 1, 0) : at], *values[at + 1 : at + 2])))
        for at, value in enumerate(values)
    )
    if is_alone:
        return "."
    return ""


def _limit(value: float) -> float:
    """Returns NaN, which is a gap, for what is not finite."""
    if math.isfinite(value):
        return max(-LARGEST_VALUE, min(value, LARGEST_VALUE))
    return math.nan
