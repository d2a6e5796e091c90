"""Writes metrics in Prometheus' text format, version 0.0.4. Pure.

An image needs no Prometheus client for it: Ray brings one only with `ray[default]`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Iterable, Literal, Tuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES = 2000
Labels = Tuple[Tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """One metric and its series.

    Attributes:
        name: with its unit, and for a counter with `_total`.
        help: one line of ASCII.
        series: labels and value; empty = the value is not known, so the metric is absent.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    series: Tuple[Tuple[Labels, float], ...]


def write_metrics(metrics: Iterable[Metric], *, most: int = MOST_SERIES) -> str:
    """Returns the text with at most `most` series: those after them are left out."""
    lines = []
    for metric in metrics:
        series = metric.series[:most]
        most -= len(series)
        if series:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{_write_labels(labels)} {_write_number(value)}" for labels, value in series]
    return "".join(f"{line}\n" for line in lines)


def _write_labels(labels: Labels) -> str:
    written = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return f"{{{written}}}" if written else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _write_number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
