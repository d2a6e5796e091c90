"""Curves as a picture, by matplotlib, which few installations of the command line have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.curves import Curve
from railhead.contract.text import clean_line

FORMATS = (".png", ".svg")
MOST_METRICS = 12
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
        for curve in curves:
            if curve.metric == metric:
                steps = [max(-LARGEST_STEP, min(step, LARGEST_STEP)) for step in curve.steps]
                marker = "." if len(steps) == 1 else ""  # a line has no length then
                axes.plot(steps, list(map(_limit, curve.values)), marker=marker, label=curve.job)
        axes.legend()
    try:
        figure.savefig(file)
    except OSError as error:
        raise ClientError(f"cannot write {file}: {error.strerror}") from None


def _limit(value: float) -> float:
    """Returns NaN, which is a gap, for what is not finite."""
    if math.isfinite(value):
        return max(-LARGEST_VALUE, min(value, LARGEST_VALUE))
    return math.nan
