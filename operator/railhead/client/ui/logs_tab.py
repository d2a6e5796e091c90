"""The job's logs: live from its pods, or of any attempt from the archive, by rank, with search."""

from __future__ import annotations

import asyncio

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from railhead.client.cluster.rank_count import count_ranks
from railhead.client.explain.past_job import PastSnapshot
from railhead.client.ui.job_context import JobContext
from railhead.client.ui.log_feed import MOST_LINES, LogBatch, LogFeed, LogWish
from railhead.client.ui.look import card, show
from railhead.client.ui.run_prompt import ask_for_reader
from railhead.client.ui.viewing import ANSWER_SECONDS, is_taken

LIVE = 0
SOURCES = {"head": "Head pod", "rank": "One rank", "all": "All pods"}
FOLLOW = (
    "(p) => { if (window.rhFollow === false) return; const n = p.api.getDisplayedRowCount();"
    " if (n) p.api.ensureIndexVisible(n - 1, 'bottom'); }"
)
Options = dict[str, object]


class LogsTab:
    """One viewer's log."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._wish = LogWish()
        self._may_start_reader = False
        self._is_changed = asyncio.Event()
        self._first = 0  # the number of the oldest line that the browser has

    def build(self) -> None:
        with card("Logs", "how-to/read-logs.md"):
            with ui.row().classes("rh-full items-center").style("gap: 8px 14px"):
                self._source = ui.toggle(SOURCES, value="head", on_change=self._choose).props("dense no-caps")
                self._rank = ui.number(label="Rank", value=0, min=0, precision=0, on_change=self._choose)
                self._rank.props("dense outlined debounce=400").style("width: 90px")
                self._attempt = ui.select({LIVE: "Live"}, value=LIVE, on_change=self._choose, label="Attempt")
                self._attempt.props("dense outlined").style("min-width: 150px")
                search = ui.input(placeholder="Search", on_change=self._search)
                search.props('dense outlined clearable debounce=250 maxlength=200 aria-label="Search"')
                ui.switch("Follow", value=True, on_change=self._follow)
            self._remark = ui.label().classes("rh-line rh-quiet")
            self._ask = ui.button("Start a reader's pod", on_click=self._ask_for_reader).props("no-caps unelevated")
            self._ask.set_visibility(False)
            self._grid = ui.aggrid(build_options()).classes("rh-grid rh-log").style("height: 64vh; min-height: 300px")
        self._rank.bind_visibility_from(self._source, "value", value="rank")

    async def run(self) -> None:
        """Reads what is wanted, until something else is."""
        await self._context.job.wait(0)
        self._offer_attempts()
        while True:
            self._is_changed.clear()
            snapshot = self._context.job.snapshot
            reading = None
            if snapshot is not None:
                self._first = 0
                await is_taken(self._grid.run_grid_method("setGridOption", "rowData", [], timeout=ANSWER_SECONDS))
                feed = LogFeed(self._context.site.source, self._context.key, self._wish, self._send)
                self._feed = feed
                reading = asyncio.create_task(feed.run(snapshot.job, may_start_reader=self._may_start_reader))
                self._may_start_reader = False
            try:
                await self._is_changed.wait()
            finally:
                if reading is not None:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)

    def _offer_attempts(self) -> None:
        snapshot = self._context.job.snapshot
        if snapshot is None:
            self._remark.text = "There is no such job."
            return
        _, most = count_ranks(snapshot.job)
        self._rank.max = most - 1
        numbers = range(1, snapshot.status.attempt + 1)
        choices = {LIVE: "Live", **{number: f"{number}, archived" for number in reversed(numbers)}}
        chosen = LIVE
        if isinstance(snapshot, PastSnapshot):
            # A job that is gone has no pods to follow.
            del choices[LIVE]
            chosen = next(iter(choices), LIVE)
            self._wish = LogWish(attempt=chosen)
        self._attempt.set_options(choices, value=chosen)

    async def _send(self, batch: LogBatch) -> None:
        """Appends the lines in the browser, and removes there what is too old."""
        self._remark.text = self._feed.remark
        self._ask.set_visibility(self._feed.needs_reader)
        end = batch.first + len(batch.lines)
        oldest = max(self._first, end - MOST_LINES)
        numbered = enumerate(batch.lines, batch.first)
        transaction = {
            "add": [{"n": number, "text": line} for number, line in numbered if number >= oldest],
            "remove": [{"n": number} for number in range(self._first, min(oldest, batch.first))],
        }
        self._first = oldest
        if not batch.lines:
            return
        sent = self._grid.run_grid_method("applyTransactionAsync", transaction, timeout=ANSWER_SECONDS)
        if not await is_taken(sent):
            # It is not known what the browser has, so all is read again.
            self._is_changed.set()

    def _choose(self) -> None:
        rank = None
        if self._source.value == "rank":
            rank = int(min(max(self._rank.value or 0, 0), self._rank.max or 0))
        self._wish = LogWish(rank, self._source.value == "all", self._attempt.value or None)
        self._is_changed.set()

    def _search(self, event: ValueChangeEventArguments[str | None]) -> None:
        self._grid.run_grid_method("setGridOption", "quickFilterText", show(event.value or ""))

    def _follow(self, event: ValueChangeEventArguments[bool | None]) -> None:
        if event.value:
            ui.run_javascript("window.rhFollow = true")
        else:
            ui.run_javascript("window.rhFollow = false")

    def _ask_for_reader(self) -> None:
        ask_for_reader(self._allow_reader)

    def _allow_reader(self) -> None:
        self._may_start_reader = True
        self._is_changed.set()


def build_options() -> Options:
    """Returns the options of a table of one column, of which the browser holds only the lines that are in sight."""
    return {
        "columnDefs": [{"field": "text", "flex": 1, "minWidth": 2400, "cellClass": "rh-mono", "sortable": False}],
        ":getRowId": "(p) => String(p.data.n)",
        ":onModelUpdated": FOLLOW,
        ":quickFilterParser": "(words) => [words]",  # a phrase, with its spaces
        "headerHeight": 0,
        "rowHeight": 20,
        "enableCellTextSelection": True,
        "ensureDomOrder": True,
        "suppressColumnVirtualisation": True,
        "overlayNoRowsTemplate": "No lines yet.",
    }
