"""The page of one job: its state above, and a tab for each question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from fastapi import Request
from nicegui import Client, ui
from nicegui.events import ValueChangeEventArguments

from railhead.client.cluster.job_rows import describe_goodput, describe_progress, describe_remaining, describe_workers
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.ui.checkpoints_tab import CheckpointsTab
from railhead.client.ui.curves_tab import CurvesTab
from railhead.client.ui.events_tab import EventsTab
from railhead.client.ui.job_context import JobContext, Tab
from railhead.client.ui.logs_tab import LogsTab
from railhead.client.ui.look import OTHER_PHASE, badge, doc_link, label, show
from railhead.client.ui.overview_tab import OverviewTab
from railhead.client.ui.page_context import PageContext, StorageRuns
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.ranks_tab import RanksTab
from railhead.client.ui.spec_tab import SpecTab
from railhead.client.ui.viewing import Region, build_frame, run_for_viewer
from railhead.contract.trackers import is_link

TABS: Mapping[str, tuple[str, Callable[[JobContext], Tab]]] = {
    "overview": ("Overview", OverviewTab),
    "curves": ("Curves", CurvesTab),
    "ranks": ("Ranks", RanksTab),
    "checkpoints": ("Checkpoints", CheckpointsTab),
    "logs": ("Logs", LogsTab),
    "events": ("Events", EventsTab),
    "spec": ("Spec", SpecTab),
}


@dataclass(frozen=True)
class JobState:
    """What stands above the tabs."""

    phase: str
    facts: tuple[tuple[str, str], ...]
    problem: str
    is_gone: bool
    is_read: bool
    tracker_url: str = ""


class JobView:
    """One viewer's page of a job.

    Attributes:
        tabs: those that it has.
    """

    tabs = TABS

    def __init__(self, site: PageContext, key: TrainJobName, request: Request) -> None:
        # The page around the view, and where the job is read: a run of a storage is read elsewhere.
        self._frame = site
        self._site = site
        self._key = key
        wanted = request.query_params.get("tab")
        self._tab = next((name for name in self.tabs if name == wanted), "overview")
        self._panels: dict[str, ui.tab_panel] = {}

    def build(self, client: Client) -> None:
        """Adds the page."""
        job = self._site.details.acquire(self._key)

        def release() -> None:
            self._site.details.release(self._key)

        client.on_delete(release)
        self._context = JobContext(self._site, self._key, job, client)
        with build_frame(self._frame, self._key.name):
            with ui.row().classes("rh-full items-center").style("gap: 10px"):
                self._build_place()
                ui.label(show(self._key.name)).classes("rh-title")
                self._region = Region(ui.row().classes("items-center").style("gap: 6px 16px"), self._build_state)
            self._links = ui.column().classes("rh-full")
            self._links.set_visibility(False)
            with (
                ui.tabs(on_change=self._open)
                .props("dense no-caps align=left inline-label mobile-arrows outside-arrows")
                .classes("rh-full") as tabs
            ):
                titles = {name: ui.tab(name, label=title) for name, (title, _) in self.tabs.items()}
            tabs.set_value(titles[self._tab])
            with (
                ui.tab_panels(tabs, value=titles[self._tab], animated=False)
                .classes("rh-full")
                .props("keep-alive") as panels
            ):
                panels.style("background: transparent")
                for name in self.tabs:
                    self._panels[name] = ui.tab_panel(name).style("padding: 0")
        self._start(self._tab)
        run_for_viewer(client, self._follow())

    def _build_place(self) -> None:
        """Adds what stands before the name."""
        ui.link("Jobs", "/").classes("rh-link")
        ui.label("/").classes("rh-quiet")
        ui.label(self._key.namespace).classes("rh-quiet rh-wide")

    def _read_address(self) -> str:
        return f"/jobs/{self._key.namespace}/{self._key.name}"

    def _open(self, event: ValueChangeEventArguments[str | ui.tab | ui.tab_panel | None]) -> None:
        name = next((each for each in self.tabs if each == event.value), "")
        if not name:
            # The page itself has changed the tab, so the address stays.
            return
        query = "" if name == "overview" else f"?{urlencode({'tab': name})}"
        ui.navigate.history.replace(f"{self._read_address()}{query}")
        self._start(name)

    def _start(self, name: str) -> None:
        """Builds the tab, if this is the first time that it is opened."""
        panel = self._panels.pop(name, None)
        if panel is None:
            return
        tab = self.tabs[name][1](self._context)
        with panel:
            tab.build()
        run_for_viewer(self._context.client, tab.run())

    async def _follow(self) -> None:
        job = self._context.job
        is_searched = False
        while True:
            version = job.version
            self._region.show(self._read_state())
            if job.is_gone and not is_searched:
                is_searched = True
                for past in self._site.storages:
                    run_for_viewer(self._context.client, self._find_runs(past))
            await job.wait(version)

    def _read_state(self) -> JobState:
        job = self._context.job
        snapshot = job.snapshot
        if snapshot is None:
            return JobState("", (), job.problem, job.is_gone, is_read=job.is_gone or bool(job.problem))
        status = snapshot.status
        remaining = ""
        if describe_remaining(status):
            remaining = f"{describe_remaining(status)} left"
        facts = (
            ("", describe_progress(status)),
            ("", remaining),
            ("Goodput", describe_goodput(status)),
            ("Attempt", str(status.attempt or "")),
            ("Workers", describe_workers(status)),
        )
        shown = tuple((name, value) for name, value in facts if value)
        phase = self._read_phase(snapshot)
        return JobState(phase, shown, job.problem, job.is_gone, is_read=True, tracker_url=status.tracker_url)

    def _read_phase(self, snapshot: JobSnapshot) -> str:
        return snapshot.status.phase or "(not seen)"

    async def _find_runs(self, past: StorageRuns) -> None:
        """Offers the runs that a storage has of a job that is gone."""
        past.acquire()
        self._context.client.on_delete(past.release)
        self._links.set_visibility(True)
        with self._links:
            region = Region(ui.row().classes("items-center"), self._build_links)
        jobs = past.site.jobs
        while True:
            seen = jobs.version
            rows = [row for row in past.source.list_rows() if self._key == TrainJobName(row.namespace, row.job)]
            region.show(tuple((past.number, row.name) for row in rows))
            await jobs.wait(seen)

    def _build_links(self, runs: Sequence[tuple[int, str]]) -> None:
        for number, name in runs:
            ui.link(show(f"What its run {name} has left"), f"/runs/{number}/{quote(name, safe='')}").classes("rh-link")

    def _build_state(self, state: JobState) -> None:
        if not state.is_read:
            ui.spinner(size="20px")
        if state.is_gone:
            words = "There is no such job"
            if state.phase:
                words = "Deleted"
            ui.label(words).classes("rh-badge").style(f"background: {OTHER_PHASE}")
            if not self._frame.storages:
                doc_link("What has its run left?", "how-to/page.md#past-runs")
        if state.phase:
            badge(state.phase)
        for name, value in state.facts:
            label(f"{name} {value}".strip(), "rh-quiet")
        # Whoever may write to the status has written it: the browser would also run a script for some addresses.
        if is_link(state.tracker_url):
            link = ui.link("Tracker", state.tracker_url, new_tab=True)
            link.classes("rh-link").props('rel="noopener noreferrer"')
        if state.problem:
            label(state.problem, "text-negative")
