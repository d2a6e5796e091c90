"""The page of all jobs. Its rows are sent to the browser, and no viewer's copy of them is kept here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Request
from nicegui import Client, ui
from nicegui.events import ValueChangeEventArguments

from railhead.client.ui.job_grid import build_options, count_phases, make_id, make_row
from railhead.client.ui.look import PHASES, doc_link, label, show
from railhead.client.ui.page_context import PageContext
from railhead.client.ui.viewing import ANSWER_SECONDS, Region, build_frame, is_taken, run_for_viewer

TOGETHER_SECONDS = 1.0  # changes within that time are sent together
AGES_SECONDS = 60.0
LONGEST_FILTER = 200
COLUMNS = ("namespace", "name", "phase", "percent", "left", "goodput", "gpus", "attempt", "waits", "created")
SORTS = (*COLUMNS, *(f"-{column}" for column in COLUMNS))
FOCUS_BY_SLASH = """<script>
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || /^(INPUT|TEXTAREA)$/.test(e.target.tagName)) return;
  const field = document.querySelector(".rh-filter input");
  if (field) { e.preventDefault(); field.focus(); }
});
</script>"""


@dataclass
class JobFilter:
    """What a viewer wants to see, as the address has it.

    Attributes:
        words: each must be in some column.
        phase: "" = any.
        sort: a column, with a minus before it for the largest first.
    """

    words: str = ""
    phase: str = ""
    sort: str = ""

    @staticmethod
    def read(request: Request) -> JobFilter:
        """Returns the filter of the address, in which anything may stand."""
        query = request.query_params
        return JobFilter(
            words=show(query.get("q", ""))[:LONGEST_FILTER],
            phase=next((phase for phase in PHASES if phase == query.get("phase")), ""),
            sort=next((sort for sort in SORTS if sort == query.get("sort")), ""),
        )

    def write(self) -> str:
        """Returns the address."""
        named = {"q": self.words, "phase": self.phase, "sort": self.sort}
        query = urlencode({name: value for name, value in named.items() if value})
        return f"/?{query}" if query else "/"


@dataclass(frozen=True)
class Totals:
    """What stands above the table."""

    is_listed: bool
    problem: str
    phases: tuple[tuple[str, int], ...]
    gpus: int


class JobsView:
    """One viewer's table."""

    def __init__(self, site: PageContext, request: Request) -> None:
        self._site = site
        self._filter = JobFilter.read(request)
        self._known: set[str] = set()
        self._version = 0

    def build(self, client: Client) -> None:
        """Adds the page."""
        with build_frame(self._site, "Jobs"):
            with ui.row().classes("rh-full items-center"):
                search = ui.input(
                    placeholder="Filter by any column  ( / )", value=self._filter.words, on_change=self._search
                )
                search.props('dense outlined clearable debounce=250 maxlength=200 aria-label="Filter"')
                search.classes("rh-filter").style("min-width: min(100%, 280px)")
                self._totals = ui.row().classes("items-center").style("gap: 6px")
                ui.space()
                doc_link("Phases", "concepts/phases.md")
            has_namespace = self._site.source.place == "all namespaces"
            self._grid = ui.aggrid(build_options(has_namespace=has_namespace)).classes("rh-grid")
            self._grid.style("height: calc(100dvh - 140px); min-height: 300px")
            self._grid.on("sortChanged", self._sort, args=["source"])
            self._region = Region(self._totals, self._build_totals)

        ui.add_body_html(FOCUS_BY_SLASH)
        run_for_viewer(client, self._feed(client))

    def _build_totals(self, totals: Totals) -> None:
        if totals.problem:
            label(totals.problem, "text-negative")
        if not totals.is_listed:
            ui.spinner(size="20px")
            ui.label("Reading the jobs")
            return
        for phase, number in totals.phases:
            self._add_phase(phase, number)
        ui.label(f"{totals.gpus} GPUs in use").classes("rh-quiet")

    def _add_phase(self, phase: str, number: int) -> None:
        async def choose() -> None:
            self._filter.phase = phase
            if was_chosen:
                self._filter.phase = ""
            await self._apply_phase()
            self._store()
            self._region.show(self._sum_up())

        was_chosen = self._filter.phase == phase
        looks = "outline"
        if was_chosen:
            looks = "unelevated aria-pressed=true"
        ui.button(f"{phase} {number}", on_click=choose).props("dense no-caps size=12px").props(looks)

    async def _feed(self, client: Client) -> None:
        """Sends all rows, then what changes."""
        jobs = self._site.jobs
        await self._restore()
        aged = asyncio.get_running_loop().time()
        while not client.is_deleted:
            self._region.show(self._sum_up())
            if jobs.is_listed and not await self._send():
                # It is not known what the browser has.
                self._version = 0
            now = asyncio.get_running_loop().time()
            if now - aged > AGES_SECONDS:
                aged = now
                self._grid.run_grid_method("refreshCells", {"columns": ["created"], "force": True})
            await asyncio.sleep(TOGETHER_SECONDS)
            try:
                await asyncio.wait_for(jobs.wait(self._version), AGES_SECONDS)
            except TimeoutError:
                continue

    async def _send(self) -> bool:
        changes = self._site.jobs.read_since(self._version)
        self._version = changes.version
        rows = [make_row(record) for record in changes.records]
        if changes.is_all:
            self._known = {row["id"] for row in rows}
            return await is_taken(self._grid.run_grid_method("setGridOption", "rowData", rows, timeout=ANSWER_SECONDS))
        gone = {make_id(key) for key in changes.gone} & self._known
        if not rows and not gone:
            return True
        transaction = {
            "add": [row for row in rows if row["id"] not in self._known],
            "update": [row for row in rows if row["id"] in self._known],
            "remove": [{"id": each} for each in gone],
        }
        self._known |= {row["id"] for row in rows}
        self._known -= gone
        return await is_taken(self._grid.run_grid_method("applyTransactionAsync", transaction, timeout=ANSWER_SECONDS))

    def _sum_up(self) -> Totals:
        jobs = self._site.jobs
        records = jobs.read_since(0).records
        return Totals(
            jobs.is_listed,
            jobs.problem,
            tuple(count_phases(records)),
            sum(record.row.gpus for record in records),
        )

    async def _restore(self) -> None:
        """Applies the filter of the address."""
        if self._filter.words:
            self._grid.run_grid_method("setGridOption", "quickFilterText", self._filter.words)
        if self._filter.phase:
            await self._apply_phase()
        if self._filter.sort:
            column = self._filter.sort.removeprefix("-")
            direction = "desc" if self._filter.sort.startswith("-") else "asc"
            self._grid.run_grid_method("applyColumnState", {"state": [{"colId": column, "sort": direction}]})

    async def _apply_phase(self) -> None:
        model: dict[str, object] = {}
        if self._filter.phase:
            model = {"phase": {"filterType": "text", "type": "equals", "filter": self._filter.phase}}
        self._grid.run_grid_method("setFilterModel", model)

    def _search(self, event: ValueChangeEventArguments[str | None]) -> None:
        self._filter.words = show(event.value or "")[:LONGEST_FILTER]
        self._grid.run_grid_method("setGridOption", "quickFilterText", self._filter.words)
        self._store()

    async def _sort(self) -> None:
        try:
            columns = await self._grid.run_grid_method("getColumnState")
        except TimeoutError:
            return
        self._filter.sort = read_sort(columns)
        self._store()

    def _store(self) -> None:
        ui.navigate.history.replace(self._filter.write())


def read_sort(columns: object) -> str:
    """Returns the sort of what a browser says about its columns, which may be anything; "" = none."""
    if not isinstance(columns, list):
        return ""
    for column in columns:
        if isinstance(column, dict) and column.get("sort") in ("asc", "desc"):
            name = str(column.get("colId"))
            if column["sort"] == "desc":
                name = f"-{name}"
            if name in SORTS:
                return name
            return ""
    return ""
