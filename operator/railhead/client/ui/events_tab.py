"""What happened to the job, in order: the status, conditions, events, and the journal of the run."""

from __future__ import annotations

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from railhead.client.explain.timeline import Moment, build_timeline, describe_records
from railhead.client.ui.job_context import JobContext
from railhead.client.ui.look import card, show
from railhead.client.ui.row_table import Options, RowTable, build_table_options
from railhead.together import run_together

MOST_MOMENTS = 5000


class EventsTab:
    """One viewer's table of moments."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def build(self) -> None:
        with card("What happened", "reference/reasons.md"):
            search = ui.input(placeholder="Filter", on_change=self._filter)
            search.props('dense outlined clearable debounce=250 maxlength=200 aria-label="Filter"')
            self._table = RowTable[Moment](build_options(), "height: 62vh; min-height: 280px")

    async def run(self) -> None:
        job = self._context.job
        run = self._context.site.runs.acquire(self._context.key)
        try:
            while True:
                seen = job.version
                seen_run = run.version
                if job.snapshot is not None:
                    journal = describe_records(run.contents.journal) if run.contents else ()
                    await self._send(tuple(build_timeline(job.snapshot, journal)))
                await run_together(job.wait(seen), run.wait(seen_run))
        finally:
            self._context.site.runs.release(self._context.key)

    async def _send(self, moments: tuple[Moment, ...]) -> None:
        if self._table.is_shown(moments):
            return
        rows = [make_row(number, moment) for number, moment in enumerate(moments[-MOST_MOMENTS:])]
        await self._table.show(moments, rows)

    def _filter(self, event: ValueChangeEventArguments[str | None]) -> None:
        self._table.grid.run_grid_method("setGridOption", "quickFilterText", show(event.value or ""))


def build_options() -> Options:
    """Returns the options of the table, without rows; the newest moment stands first."""
    columns: list[Options] = [
        {"field": "time", "headerName": "Time", "width": 200, "sort": "desc"},
        {"field": "what", "headerName": "What", "width": 190},
        {
            "field": "details",
            "headerName": "Details",
            "flex": 1,
            "minWidth": 150,
            "wrapText": True,
            "autoHeight": True,
        },
        {"field": "source", "headerName": "Source", "width": 100},
    ]
    return build_table_options(columns, for_wide=["time", "source"])


def make_row(number: int, moment: Moment) -> dict[str, str]:
    """Returns a moment as the browser gets it."""
    return {
        "id": str(number),
        "time": show(moment.time),
        "what": show(moment.what),
        "details": show(moment.details),
        "source": show(moment.source),
    }
