"""The job's pods and ranks: which run, which compute slowly, and where each of them is in its code."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from railhead.api import names
from railhead.api.slow_ranks import SlowRankStatus
from railhead.client.cluster.job_snapshot import JobSnapshot, PodState
from railhead.client.cluster.rank_count import count_ranks
from railhead.client.explain.rank_use import RankAnswers, RankRow, build_rows
from railhead.client.explain.ranks import group_stacks
from railhead.client.ui.job_context import JobContext
from railhead.client.ui.look import build_facts, card, doc_link, label, show
from railhead.client.ui.row_table import Options, RowTable, build_table_options
from railhead.client.ui.viewing import Region
from railhead.contract.times import format_duration, parse_time

MOST_STACK = 20_000  # characters of one
MOST_GROUPS = 50


class RanksTab:
    """One viewer's ranks."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def build(self) -> None:
        with ui.column().classes("rh-full").style("gap: 12px"):
            with card("Ranks", "concepts/elastic.md"):
                self._facts = Region(ui.element("div").classes("rh-facts"), build_facts)
            with card("Slow ranks", "how-to/detect-hangs.md#slow-ranks"):
                self._slow = Region(ui.column().classes("rh-full").style("gap: 4px"), self._build_slow)
            with card("Pods of the current attempt", "operate/pods-that-do-not-start.md"):
                self._table = RowTable[PodState](build_options(), "height: 300px")
            with card("Each rank now", "how-to/detect-hangs.md#look-yourself"):
                ui.label(
                    "The step of each rank, where it is in its code, and how busy its GPUs are. Training continues; "
                    "this needs kubectl, and the right to run a command in a pod."
                ).classes("rh-quiet")
                self._button = ui.button("Ask all ranks", on_click=self._ask_ranks)
                self._button.props("no-caps unelevated")
                self._rows = RowTable[RankRow](build_rank_options(), "height: 330px")
                self._rows.grid.set_visibility(False)
                self._stacks = ui.column().classes("rh-full")

    async def run(self) -> None:
        job = self._context.job
        while True:
            seen = job.version
            if job.snapshot is not None:
                self._facts.show(describe_ranks(job.snapshot))
                self._slow.show(list_slow(job.snapshot))
                await self._send(job.snapshot.current_pods)
            await job.wait(seen)

    async def _send(self, pods: tuple[PodState, ...]) -> None:
        if not self._table.is_shown(pods):
            await self._table.show(pods, [make_row(pod) for pod in pods])

    def _build_slow(self, ranks: Sequence[SlowRankStatus]) -> None:
        if not ranks:
            ui.label(
                "No rank is known to compute slowly. Railhead compares them where training code marks its sections "
                "with railhead.training.compute."
            ).classes("rh-quiet")
        for each in ranks:
            since = f", since {each.since}" if each.since else ""
            label(
                f"Rank {each.rank} at {each.score} of the usual pace: {each.pod} on {each.node or '(no node)'}{since}"
            )

    async def _ask_ranks(self) -> None:
        self._button.disable()
        self._stacks.clear()
        with self._stacks:
            ui.spinner(size="24px")
        found = await self._context.site.source.ask_ranks(self._context.key)
        self._button.enable()
        self._stacks.clear()
        snapshot = self._context.job.snapshot
        rows: list[RankRow] = []
        if snapshot is not None:
            rows = build_rows(found, list_slow(snapshot))
        self._rows.grid.set_visibility(bool(rows))
        with self._stacks:
            self._build_stacks(found)
        await self._rows.show(tuple(rows), [make_rank_row(row) for row in rows])

    def _build_stacks(self, found: RankAnswers) -> None:
        for problem in found.problems:
            label(problem, "text-negative")
        if not found.stacks:
            return
        if not found.gpus:
            with ui.row().style("gap: 6px"):
                ui.label("The use of GPUs is measured in jobs with spec.metrics.").classes("rh-quiet")
                doc_link("How?", "how-to/job-metrics.md#metrics")
        groups = group_stacks(found.stacks)
        ui.label(
            f"{len(found.stacks)} ranks, {len(groups)} different stacks; that of the fewest ranks stands first, since "
            "the others usually wait for those."
        ).classes("rh-quiet")
        for number, (title, text) in enumerate(groups[:MOST_GROUPS]):
            with ui.expansion(show(title), value=number == 0).classes("rh-full").props("dense"):
                label(text[:MOST_STACK], "rh-mono rh-code")


def describe_ranks(snapshot: JobSnapshot) -> tuple[tuple[str, str], ...]:
    """Returns what is known of all ranks together."""
    status = snapshot.status
    progress = status.progress
    least, most = count_ranks(snapshot.job)
    wanted = str(least)
    if least != most:
        wanted = f"{least} to {most}"
    is_current = progress.attempt == status.attempt
    step = ""
    if is_current and progress.step is not None:
        step = str(progress.step)
        if progress.total_steps:
            step += f" of {progress.total_steps}"
    age = ""
    updated = parse_time(progress.update_time)
    if is_current and updated is not None and not status.is_finished:
        age = f"{format_duration(max(0, round((snapshot.now - updated).total_seconds())))} before this was read"
    facts = (
        ("Wanted", wanted),
        ("In the worker group", str(progress.workers) if is_current and progress.workers else ""),
        ("State", progress.state if is_current else ""),
        ("Step of rank 0", step),
        ("Last report", age),
    )
    return tuple((name, value) for name, value in facts if value)


def list_slow(snapshot: JobSnapshot) -> tuple[SlowRankStatus, ...]:
    """Returns the slow ranks of the current attempt."""
    progress = snapshot.status.progress
    if progress.attempt != snapshot.status.attempt or snapshot.status.is_finished:
        return ()
    return tuple(progress.slow_ranks or ())


def build_options() -> Options:
    """Returns the options of the table, without rows."""
    columns: list[Options] = [
        {"field": "name", "headerName": "Pod", "flex": 2, "minWidth": 170},
        {"field": "role", "headerName": "Role", "width": 100},
        {"field": "state", "headerName": "State", "flex": 1, "minWidth": 130},
        {"field": "node", "headerName": "Node", "flex": 1, "minWidth": 110},
        {"field": "message", "headerName": "Message", "flex": 2, "minWidth": 140},
    ]
    return build_table_options(columns, for_wide=["role", "message"], empty="The attempt has no pods now.")


def build_rank_options() -> Options:
    """Returns the options of the table of ranks, without rows."""
    columns: list[Options] = [
        {"field": "rank", "headerName": "Rank", "width": 80, "type": "rightAligned"},
        {"field": "pod", "headerName": "Pod", "flex": 1, "minWidth": 150},
        {"field": "step", "headerName": "Step", "width": 90, "type": "rightAligned"},
        {"field": "place", "headerName": "In its code", "flex": 2, "minWidth": 170},
        {"field": "pace", "headerName": "Pace", "width": 85, "type": "rightAligned"},
        {"field": "gpu", "headerName": "GPU in use", "width": 120, "type": "rightAligned"},
        {"field": "memory", "headerName": "GPU memory", "width": 190, "type": "rightAligned"},
    ]
    return build_table_options(columns, for_wide=["pod", "pace", "memory"])


def make_rank_row(row: RankRow) -> dict[str, str | int]:
    """Returns a rank as the browser gets it."""
    return {
        "id": str(row.rank),
        "rank": row.rank,
        "pod": show(row.pod),
        "step": row.step,
        "place": show(row.place),
        "pace": show(row.pace),
        "gpu": row.gpu,
        "memory": row.memory,
    }


def make_row(pod: PodState) -> dict[str, str]:
    """Returns a pod as the browser gets it."""
    state = pod.phase
    if pod.is_deleting:
        state = "Terminating"
    if pod.reason:
        state += f", {pod.reason}"
    role = "worker"
    if pod.role == names.HEAD:
        role = "head"
    return {
        "id": show(pod.name),
        "name": show(pod.name),
        "role": role,
        "state": show(state),
        "node": show(pod.node),
        "message": show(pod.message),
    }
