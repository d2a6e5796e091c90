"""The checkpoints of the run: which is the newest, which the best, when they were committed and what they weigh."""

from __future__ import annotations

from nicegui import ui

from railhead.client.run.checkpoints import CheckpointRow
from railhead.client.submit.code_files import format_size
from railhead.client.ui.job_context import JobContext
from railhead.client.ui.look import build_facts, card, show
from railhead.client.ui.row_table import Options, RowTable, build_table_options
from railhead.client.ui.run_prompt import RunState, build_prompt, read_state
from railhead.client.ui.viewing import Region
from railhead.together import run_together

MOST_METRICS = 500  # characters of a checkpoint's metrics


class CheckpointsTab:
    """One viewer's table of checkpoints."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def build(self) -> None:
        with ui.column().classes("rh-full").style("gap: 12px"):
            with card("Newest and best", "concepts/storage.md"):
                self._facts = Region(ui.element("div").classes("rh-facts"), build_facts)
            with card("Checkpoints of the run", "how-to/store-checkpoints.md"):
                self._prompt = Region(ui.column().classes("rh-full"), self._build_prompt)
                self._table = RowTable[CheckpointRow](build_options(), "height: 420px")
                self._table.grid.set_visibility(False)

    async def run(self) -> None:
        job = self._context.job
        self._run = self._context.site.runs.acquire(self._context.key)
        try:
            while True:
                seen = job.version
                seen_run = self._run.version
                self._prompt.show(read_state(self._run))
                self._table.grid.set_visibility(self._run.contents is not None)
                if job.snapshot is not None:
                    self._facts.show(self._list_facts())
                if self._run.contents is not None:
                    await self._send(self._run.contents.checkpoints)
                await run_together(job.wait(seen), self._run.wait(seen_run))
        finally:
            self._context.site.runs.release(self._context.key)

    def _list_facts(self) -> tuple[tuple[str, str], ...]:
        assert self._context.job.snapshot is not None
        status = self._context.job.snapshot.status
        facts = [("Committed", str(status.newest_index + 1))]
        for title, each in (("Newest", status.checkpoint), ("Best", status.best_checkpoint)):
            if each is not None:
                facts.append((title, each.uri))
                facts.append((f"{title}, committed", f"{each.time or 'at an unknown time'}, attempt {each.attempt}"))
        if status.resumed_from is not None:
            facts.append(("This attempt began from", status.resumed_from.uri))
        return tuple(facts)

    def _build_prompt(self, state: RunState) -> None:
        build_prompt(state, self._run.allow_reader)

    async def _send(self, rows: tuple[CheckpointRow, ...]) -> None:
        if not self._table.is_shown(rows):
            await self._table.show(rows, [make_row(row) for row in rows])


def build_options() -> Options:
    """Returns the options of the table, without rows; the newest checkpoint stands first."""
    columns: list[Options] = [
        {"field": "name", "headerName": "Checkpoint", "flex": 2, "minWidth": 150},
        {"field": "what", "headerName": "Is", "width": 120},
        {"field": "index", "headerName": "Index", "width": 90, "type": "rightAligned", "sort": "desc"},
        {"field": "step", "headerName": "Step", "width": 100, "type": "rightAligned"},
        {"field": "time", "headerName": "Committed", "width": 200},
        {"field": "size", "headerName": "Size", "width": 110, "type": "rightAligned"},
        {"field": "files", "headerName": "Files", "width": 85, "type": "rightAligned"},
        {"field": "metrics", "headerName": "Metrics", "flex": 2, "minWidth": 150},
    ]
    hidden = ["index", "time", "files", "metrics"]
    return build_table_options(columns, for_wide=hidden, empty="The run has no checkpoints.")


def make_row(row: CheckpointRow) -> dict[str, str | int | None]:
    """Returns a checkpoint as the browser gets it."""
    size = format_size(row.bytes)
    if row.is_empty:
        size = "empty"
    elif not row.files:
        size = "lost"
    words = [word for word, holds in (("newest", row.is_newest), ("best", row.is_best)) if holds]
    metrics = ", ".join(f"{name} {value}" for name, value in row.metrics.items())
    return {
        "id": show(row.name),
        "name": show(row.name),
        "what": ", ".join(words),
        "index": row.index,
        "step": row.step,
        "time": show(row.time),
        "size": size,
        "files": row.files,
        "metrics": show(metrics[:MOST_METRICS]),
    }
