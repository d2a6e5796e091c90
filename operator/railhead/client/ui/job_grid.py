"""The table of all jobs: its columns, and a job as a row of it. Pure: keys are constants, only values are data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypedDict

from railhead.client.cluster.job_rows import JobNumbers
from railhead.client.ui import grid_scripts
from railhead.client.ui.look import show
from railhead.client.ui.page_source import TrainJobName
from railhead.contract.times import parse_time

# Without the reason a job that hangs would look like one that trains.
FOR_WIDE = ["percent", "left", "goodput", "gpus", "attempt", "created"]
Options = dict[str, object]


class GridRow(TypedDict):
    """A job, as the browser gets it."""

    id: str
    namespace: str
    name: str
    phase: str
    percent: int | None
    progress: str
    left: int | None
    goodput: float | None
    gpus: int
    attempt: int
    waits: str
    created: int | None


def make_id(key: TrainJobName) -> str:
    """Returns what identifies the job's row; neither part of a name has a slash."""
    return show(str(key))


def make_row(record: JobNumbers) -> GridRow:
    """Returns the row of a job."""
    row = record.row
    created = parse_time(row.created)
    return {
        "id": make_id(TrainJobName(row.namespace, row.name)),
        "namespace": show(row.namespace),
        "name": show(row.name),
        "phase": show(row.phase),
        "percent": record.percent,
        "progress": show(row.progress),
        "left": record.remaining_seconds,
        "goodput": record.goodput,
        "gpus": row.gpus,
        "attempt": row.attempt,
        "waits": show(row.waits_for),
        "created": None if created is None else int(created.timestamp() * 1000),
    }


def build_options(*, has_namespace: bool) -> Options:
    """Returns the options of the table, without rows."""
    columns: list[Options] = []
    if has_namespace:
        columns.append({"field": "namespace", "headerName": "Namespace", "width": 130})
    columns += [
        {"field": "name", "headerName": "Job", "flex": 2, "minWidth": 130, ":cellRenderer": grid_scripts.JOB_LINK},
        {
            "field": "phase",
            "headerName": "Phase",
            "width": 124,
            ":cellRenderer": grid_scripts.PHASE,
            "filter": "agTextColumnFilter",
            "suppressHeaderFilterButton": True,
        },
        {
            "field": "percent",
            "headerName": "Progress",
            "flex": 1,
            "minWidth": 110,
            ":cellRenderer": grid_scripts.PROGRESS,
        },
        _number("left", "Left", grid_scripts.DURATION, width=90),
        _number("goodput", "Goodput", grid_scripts.PERCENT, width=105),
        _number("gpus", "GPUs", "", width=85),
        _number("attempt", "Attempt", "", width=98),
        {
            "field": "waits",
            "headerName": "Reason",
            "flex": 1,
            "minWidth": 130,
            ":tooltipValueGetter": grid_scripts.TOOLTIP,
        },
        _number("created", "Age", grid_scripts.AGE, width=85),
    ]
    return {
        "columnDefs": columns,
        "defaultColDef": {"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        ":getRowId": grid_scripts.ROW_ID,
        ":onCellKeyDown": grid_scripts.OPEN_BY_ENTER,
        ":onGridSizeChanged": grid_scripts.hide_when_narrow(FOR_WIDE),
        "rowHeight": 36,
        "headerHeight": 36,
        "animateRows": False,
        "enableCellTextSelection": True,
        "suppressColumnMoveAnimation": True,
        "tooltipShowDelay": 300,
        "overlayNoRowsTemplate": "No TrainJobs found.",
    }


def _number(field: str, title: str, formatter: str, *, width: int) -> Options:
    column: Options = {"field": field, "headerName": title, "width": width, "type": "rightAligned"}
    if formatter:
        column[":valueFormatter"] = formatter
    return column


def count_phases(records: Iterable[JobNumbers]) -> list[tuple[str, int]]:
    """Returns how many jobs are in each phase, the most frequent first."""
    counts = Counter(show(record.row.phase) for record in records)
    return sorted(counts.items(), key=_rank)


def _rank(item: tuple[str, int]) -> tuple[int, str]:
    phase, number = item
    return -number, phase
