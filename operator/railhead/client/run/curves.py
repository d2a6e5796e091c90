"""The curves of a run's metrics, from the history of its reports. Pure.

A run that resumes from a checkpoint reports the steps after it again. A curve has each step once, as it was made last:
the run continued with those weights.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from railhead.history import History, Record

BARS = "▁▂▃▄▅▆▇█"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so
FIRST_COLUMNS = ("job", "attempt", "time", "report", "step")
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
MOST_LEVELS = 8
Scalar = bool | int | float | str | None


@dataclass(frozen=True)
class RankReport:
    """One report of rank 0.

    Attributes:
        step: None without railhead.training.progress.
        metrics: a nested metric has the names of all levels, with dots; numbers that JSON lacks are text.
    """

    job: str
    attempt: int
    time: str
    report: int | None
    step: int | None
    metrics: Mapping[str, Scalar]


@dataclass(frozen=True)
class Curve:
    """A metric of a job, in order.

    Attributes:
        values: without gaps, but some may be NaN.
        steps: of the values; the numbers of their reports in a run without railhead.training.progress.
        times: of the values, RFC 3339.
    """

    job: str
    metric: str
    values: tuple[float, ...]
    steps: tuple[int, ...] = ()
    times: tuple[str, ...] = ()


class _Point(NamedTuple):
    """A value of a metric, and where it is."""

    step: int
    time: str
    value: float


def read_reports(job: str, history: History, metrics: Sequence[str] = ()) -> list[RankReport]:
    """Returns the reports in the order of time, the repeated ones too, with these metrics, or all if none is named."""
    return [_read(job, record, metrics) for record in history.records]


def _read(job: str, record: Record, wanted: Sequence[str]) -> RankReport:
    found = record.get("metrics")
    metrics = dict(_flatten("", found)) if isinstance(found, dict) else {}
    report = record.get("report")
    step = record.get("step")
    return RankReport(
        job,
        attempt=int(record["attempt"]),
        time=str(record["time"]),
        report=report if type(report) is int else None,
        step=step if type(step) is int else None,
        metrics={name: value for name, value in metrics.items() if not wanted or name in wanted},
    )


def _flatten(prefix: str, values: Mapping[str, object], level: int = 1) -> Iterator[tuple[str, Scalar]]:
    for name, value in values.items():
        if isinstance(value, dict) and level < MOST_LEVELS:
            yield from _flatten(f"{prefix}{name}.", value, level + 1)
        elif value is None or isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{name}", value


def drop_repeated(reports: Sequence[RankReport]) -> list[RankReport]:
    """Returns the reports without those of steps that training made again later; without steps, all of them."""
    kept: list[RankReport] = []
    for report in reports:
        while kept and _is_repeated(kept[-1], report):
            kept.pop()
        kept.append(report)
    return kept


def _is_repeated(old: RankReport, new: RankReport) -> bool:
    """Returns whether the new report stands for the old one. Within an attempt several reports may have the same
    step."""
    if old.job != new.job or old.step is None or new.step is None:
        return False
    return old.step > new.step or (old.step == new.step and old.attempt != new.attempt)


def build_curves(reports: Sequence[RankReport]) -> list[Curve]:
    """Returns the curves of all metrics, by metric and then by job."""
    found: dict[tuple[str, str], list[_Point]] = {}
    for count, report in enumerate(reports):
        place = next((each for each in (report.step, report.report) if each is not None), count)
        for name, value in report.metrics.items():
            number = _to_number(value)
            if number is not None:
                found.setdefault((name, report.job), []).append(_Point(place, report.time, number))
    metrics = dict.fromkeys(name for name, _ in found)
    jobs = sorted({job for _, job in found})
    return [_build_curve(job, name, found[name, job]) for name in metrics for job in jobs if (name, job) in found]


def _build_curve(job: str, name: str, points: Sequence[_Point]) -> Curve:
    return Curve(
        job,
        name,
        values=tuple(point.value for point in points),
        steps=tuple(point.step for point in points),
        times=tuple(point.time for point in points),
    )


def _to_number(value: Scalar) -> float | None:
    if isinstance(value, str):
        return NOT_FINITE.get(value)
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        if value > 0:
            return math.inf
        return -math.inf


def draw(values: Sequence[float], width: int, *, low: float, high: float) -> str:
    """Returns a line of bars: the last value of each of at most `width` stretches, "·" if it is not finite."""
    count = min(width, len(values))
    shown = [values[(index + 1) * len(values) // count - 1] for index in range(count)]
    return "".join(_draw(value, low, high) for value in shown)


def _draw(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "·"
    # halves do not overflow
    if high <= low:
        part = 0.5
    else:
        part = (value / 2 - low / 2) / (high / 2 - low / 2)
    return BARS[min(int(part * len(BARS)), len(BARS) - 1)]


def compute_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """Returns the lowest and the highest finite value, 0 and 0 if there is none."""
    values = [value for curve in curves for value in curve.values if math.isfinite(value)]
    return min(values, default=0.0), max(values, default=0.0)


def write_csv(reports: Sequence[RankReport]) -> str:
    """Returns a row per report, with the columns of FIRST_COLUMNS and one per metric. No cell is a formula."""
    names = dict.fromkeys(name for report in reports for name in report.metrics)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*FIRST_COLUMNS, *map(_quote, names)])
    for each in reports:
        first = (each.job, each.attempt, each.time, each.report, each.step)
        writer.writerow([_quote(cell) for cell in (*first, *(each.metrics.get(name) for name in names))])
    return text.getvalue().rstrip("\n")


def _quote(cell: object) -> object:
    """Makes a spreadsheet take a formula as text, by an apostrophe; numbers are safe."""
    if isinstance(cell, str) and cell.startswith(FORMULA):
        return f"'{cell}"
    return cell


def describe_gaps(history: History, place: str) -> list[str]:
    """Returns a sentence for each reason why records are missing in what was read from the place."""
    gaps = []
    if history.every > 1:
        gaps.append(f"The oldest records in {place} are thinned out: one of up to {history.every} in a row is kept.")
    if history.dropped:
        gaps.append(f"{history.dropped} records are missing in {place}, because the storage did not take them.")
    if history.skipped:
        gaps.append(f"{history.skipped} lines in {place} cannot be read.")
    return gaps
