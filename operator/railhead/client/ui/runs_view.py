"""The page of the runs of a storage. Its records are read while somebody looks at them."""

from __future__ import annotations

from dataclasses import dataclass

from nicegui import Client, ui
from nicegui.events import ValueChangeEventArguments

from railhead.client.run.run_list import RunRow
from railhead.client.ui import grid_scripts
from railhead.client.ui.look import doc_link, label, show
from railhead.client.ui.page_context import PageContext, StorageRuns
from railhead.client.ui.row_table import Options, RowTable, build_table_options
from railhead.client.ui.viewing import Region, build_frame, run_for_viewer
from railhead.contract.times import parse_time

FOR_WIDE = ["job", "reason", "started", "seconds", "attempts", "goodput", "checkpoint"]


@dataclass(frozen=True)
class Listing:
    """What stands above the table."""

    is_listed: bool
    number: int
    problems: tuple[str, ...]


class RunsView:
    """One viewer's table of the runs of a storage."""

    def __init__(self, site: PageContext, past: StorageRuns) -> None:
        self._site = site
        self._past = past

    def build(self, client: Client) -> None:
        """Adds the page."""
        self._past.acquire()
        client.on_delete(self._past.release)
        with build_frame(self._site, "Past runs"):
            with ui.row().classes("rh-full items-center"):
                search = ui.input(placeholder="Filter by any column", on_change=self._search)
                search.props('dense outlined clearable debounce=250 maxlength=200 aria-label="Filter"')
                search.style("min-width: min(100%, 280px)")
                ui.label(show(self._past.source.place)).classes("rh-quiet rh-line")
                self._above = Region(ui.row().classes("items-center"), self._build_above)
                ui.space()
                doc_link("States", "how-to/find-past-runs.md#what-the-states-mean")
            self._table = RowTable[RunRow](build_options(), "height: calc(100dvh - 140px); min-height: 300px")
        run_for_viewer(client, self._follow())

    async def _follow(self) -> None:
        jobs = self._past.site.jobs
        while True:
            seen = jobs.version
            rows = tuple(self._past.source.list_rows())
            problems = (jobs.problem, *self._past.source.notes)
            self._above.show(Listing(jobs.is_listed, len(rows), tuple(filter(None, problems))))
            if not self._table.is_shown(rows):
                await self._table.show(rows, [make_row(self._past.number, row) for row in rows])
            await jobs.wait(seen)

    def _build_above(self, listing: Listing) -> None:
        for problem in listing.problems:
            label(problem, "text-negative")
        if listing.is_listed:
            ui.label(f"{listing.number} runs").classes("rh-quiet")
        elif not listing.problems:
            ui.spinner(size="20px")
            ui.label("Reading the records of the runs")

    def _search(self, event: ValueChangeEventArguments[str | None]) -> None:
        self._table.grid.run_grid_method("setGridOption", "quickFilterText", show(event.value or ""))


def build_options() -> Options:
    """Returns the options of the table, without rows; the run that started last stands first."""
    columns: list[Options] = [
        {"field": "name", "headerName": "Run", "flex": 2, "minWidth": 140, ":cellRenderer": grid_scripts.RUN_LINK},
        {"field": "state", "headerName": "State", "width": 118, ":cellRenderer": grid_scripts.PHASE},
        {"field": "reason", "headerName": "Reason", "flex": 1, "minWidth": 120},
        {"field": "job", "headerName": "Job", "flex": 1, "minWidth": 120},
        _number("started", "Started", grid_scripts.AGE, 95),
        _number("seconds", "Duration", grid_scripts.DURATION, 105),
        _number("attempts", "Attempts", "", 105),
        _number("goodput", "Goodput", grid_scripts.PERCENT, 105),
        {"field": "best", "headerName": "Best", "flex": 1, "minWidth": 110},
        _number("checkpoint", "Checkpoint", "", 120),
    ]
    options = build_table_options(columns, for_wide=FOR_WIDE, empty="No runs with a record.")
    return {**options, ":onCellKeyDown": grid_scripts.OPEN_RUN_BY_ENTER}


def _number(field: str, title: str, formatter: str, width: int) -> Options:
    column: Options = {"field": field, "headerName": title, "width": width, "type": "rightAligned"}
    if formatter:
        column[":valueFormatter"] = formatter
    return column


def make_row(storage: int, row: RunRow) -> dict[str, str | int | float | None]:
    """Returns a run as the browser gets it."""
    started = parse_time(row.started)
    return {
        "id": show(row.name),
        "storage": storage,
        "name": show(row.name),
        "state": row.state,
        "reason": show(row.reason),
        "job": show(f"{row.namespace}/{row.job}"),
        "started": None if started is None else int(started.timestamp() * 1000),
        "seconds": max(row.seconds, 0),
        "attempts": row.attempts,
        "goodput": row.goodput,
        "best": show(row.best_metric),
        "checkpoint": row.checkpoint,
    }
