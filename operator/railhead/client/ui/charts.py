"""The pictures as options of ECharts. Pure: keys are constants, only values are data, and no value is a formatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railhead.client.explain.attempt_spans import Span
from railhead.client.explain.lost_time import SpentTime
from railhead.client.run.curve_points import Axis, Point
from railhead.client.ui.look import LINE, TEXT, show
from railhead.contract.times import format_duration

Options = dict[str, object]
KINDS: Mapping[str, tuple[str, str]] = {
    "waiting": ("Waiting", "#8b6fd0"),
    "starting": ("Starting", "#d9a51f"),
    "training": ("Training", "#2e9e5b"),
    "restarting": ("Restarting", "#e07b39"),
    "gap": ("Gap", "#d64545"),
    "end": ("Ended", "#a61b4a"),
}
CAUSES: Mapping[str, str] = {
    "productive": "#2e9e5b",
    "queued": "#8b6fd0",
    "pods_pending": "#b08be0",
    "starting": "#d9a51f",
    "restoring": "#e07b39",
    "checkpointing": "#3f7fd6",
    "retrained": "#d64545",
    "hanging": "#a61b4a",
    "draining": "#5aa9b8",
    "suspended": "#7b8794",
    "other": "#a9b1ba",
}
COLOURS = ("#3f7fd6", "#e07b39", "#2e9e5b", "#d64545", "#8b6fd0", "#17a2b8", "#d9a51f", "#a61b4a")
UNITS = ((172_800, 86_400, "d"), (7_200, 3_600, "h"), (120, 60, "min"))  # from so many seconds on: the unit
ROW_PIXELS = 26
BAR_PIXELS = 14
END_SHARE = 0.006  # of the width, for the mark of an end
MOST_CAUSE = 120  # characters of a cause in a picture
# Text on the canvas, in which nothing is HTML.
TOOLTIP: Options = {"renderMode": "richText", "confine": True, "textStyle": {"fontSize": 12}}


@dataclass(frozen=True)
class RunLine:
    """A job's curve of one metric."""

    job: str
    points: tuple[Point, ...]


def draw_timeline(spans: Sequence[Span]) -> Options:
    """Returns a row per attempt, from the beginning of the first span on."""
    if not spans:
        return {"series": []}
    begin = spans[0].begin
    seconds = max((span.end - begin).total_seconds() for span in spans)
    size, unit = _choose_unit(seconds)
    rows = list(dict.fromkeys(span.attempt for span in spans))
    series: list[Options] = []
    for span in spans:
        row = rows.index(span.attempt)
        offset = (span.begin - begin).total_seconds() / size
        length = span.seconds / size
        if span.kind == "end":
            length = END_SHARE * seconds / size
            offset -= length
        for part in (_make_offset(offset), _make_bar(span, length)):
            series.append({**part, "stack": f"span {len(series) // 2}", "data": _at_row(part["data"], row)})
    return {
        "animation": False,
        "grid": {"left": 8, "right": 24, "top": 8, "bottom": 4, "containLabel": True},
        "tooltip": {**TOOLTIP, "trigger": "item", "formatter": "{a}"},
        "xAxis": {**_axis(), "type": "value", "min": 0, "max": seconds / size, "axisLabel": _label(unit)},
        "yAxis": {
            **_axis(),
            "type": "category",
            "inverse": True,
            "data": [f"Attempt {row}" if row else "Before" for row in rows],
            "splitLine": {"show": False},
        },
        "series": series,
    }


def measure_timeline(spans: Sequence[Span]) -> int:
    """Returns the height of the picture in pixels."""
    return 48 + ROW_PIXELS * max(1, len({span.attempt for span in spans}))


def _make_offset(value: float) -> Options:
    return {
        "type": "bar",
        "silent": True,
        "itemStyle": {"color": "transparent"},
        "tooltip": {"show": False},
        "barWidth": BAR_PIXELS,
        "barGap": "-100%",  # stacks of one attempt lie over each other: each begins at 0, with an offset
        "data": value,
    }


def _make_bar(span: Span, length: float) -> Options:
    return {
        "type": "bar",
        "name": describe_span(span),
        "itemStyle": {"color": KINDS[span.kind][1], "borderRadius": 2},
        "barWidth": BAR_PIXELS,
        "barGap": "-100%",
        "data": length,
    }


def _at_row(value: object, row: int) -> list[object]:
    return [*[None] * row, value]


def describe_span(span: Span) -> str:
    """Returns for example: Gap for 5m: Hardware GPUFailed on gpu-7; of training, what ended it."""
    words = KINDS[span.kind][0]
    if span.kind != "end":
        words += f" for {format_duration(round(span.seconds))}"
    if span.is_open:
        words += " so far"
    if not span.cause:
        return words
    link = ": "
    if span.kind == "training":
        link = ", until "
    cause = show(span.cause)
    if len(cause) > MOST_CAUSE:
        cause = f"{cause[:MOST_CAUSE]} ..."
    return f"{words}{link}{cause}"


def draw_goodput(parts: Sequence[SpentTime]) -> Options:
    """Returns one bar of all time."""
    return {
        "animation": False,
        "grid": {"left": 0, "right": 0, "top": 0, "bottom": 0},
        "tooltip": {**TOOLTIP, "trigger": "item", "formatter": "{a}"},
        "xAxis": {"type": "value", "max": 1, "show": False},
        "yAxis": {"type": "category", "data": [""], "show": False},
        "series": [
            {
                "type": "bar",
                "stack": "time",
                "name": f"{part.title}: {format_duration(part.seconds)}, {part.share:.1%}",
                "itemStyle": {"color": CAUSES[part.cause]},
                "barWidth": 26,
                "data": [part.share],
            }
            for part in parts
        ],
    }


def draw_curves(lines: Sequence[RunLine], axis: Axis, *, is_logarithmic: bool) -> Options:
    """Returns the curves of one metric over each other."""
    kinds = {"step": "value", "elapsed": "value", "clock": "time"}
    size = 1
    unit = ""
    if axis == "elapsed":
        longest = max((line.points[-1].x for line in lines if line.points), default=0.0)
        size, unit = _choose_unit(longest)
    has_legend = len(lines) > 1
    top = 10
    if has_legend:
        top = 32
    horizontal = {**_axis(), "type": kinds[axis], "scale": True, "splitLine": {"show": False}}
    if axis != "clock":
        horizontal["axisLabel"] = _label(unit)
    return {
        "animation": False,
        "grid": {"left": 8, "right": 16, "top": top, "bottom": 4, "containLabel": True},
        "legend": {"top": 0, "type": "scroll", "textStyle": {"color": TEXT}, "show": has_legend},
        "tooltip": {**TOOLTIP, "trigger": "axis"},
        "xAxis": horizontal,
        "yAxis": {**_axis(), "type": "log" if is_logarithmic else "value", "scale": True},
        "dataZoom": [{"type": "inside", "filterMode": "none"}],
        "series": [
            {
                "type": "line",
                "id": f"run {number}",
                "name": show(line.job),
                "showSymbol": len(line.points) < 2,
                "lineStyle": {"width": 1.6},
                "color": COLOURS[number % len(COLOURS)],
                "data": [[point.x / size, _drawable(point.y, is_logarithmic)] for point in line.points],
            }
            for number, line in enumerate(lines)
        ],
    }


def _drawable(value: float | None, is_logarithmic: bool) -> float | None:
    """Returns None, a gap, for what has no logarithm."""
    if value is not None and is_logarithmic and value <= 0:
        return None
    return value


def _choose_unit(seconds: float) -> tuple[int, str]:
    for least, size, unit in UNITS:
        if seconds >= least:
            return size, unit
    return 1, "s"


def _axis() -> Options:
    return {
        "axisLabel": {"color": TEXT},
        "axisLine": {"lineStyle": {"color": LINE}},
        "splitLine": {"lineStyle": {"color": LINE}},
    }


def _label(unit: str) -> Options:
    """Returns the labels of an axis. `unit` is a constant."""
    # The last one would be that of the end of the data, with all its digits.
    plain: Options = {"color": TEXT, "showMaxLabel": False}
    if not unit:
        return plain
    return {**plain, "formatter": f"{{value}} {unit}"}
