"""The page of one run of a storage: the page of a job, without what only pods have."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request
from nicegui import ui

from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.past_job import PastSnapshot
from railhead.client.ui.job_view import TABS, JobView
from railhead.client.ui.page_context import PageContext, StorageRuns
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.spec_tab import RecordTab


class RunView(JobView):
    """One viewer's page of a run."""

    tabs = {**{name: tab for name, tab in TABS.items() if name != "ranks"}, "spec": ("Spec", RecordTab)}

    def __init__(self, frame: PageContext, past: StorageRuns, key: TrainJobName, request: Request) -> None:
        super().__init__(past.site, key, request)
        self._frame = frame
        self._past = past

    def _start(self, name: str) -> None:
        if name == "curves" and name in self._panels:
            # The other runs of the storage, to choose from. A list of many is too dear for the other tabs.
            self._past.acquire()
            self._context.client.on_delete(self._past.release)
        super()._start(name)

    def _build_place(self) -> None:
        ui.link("Past runs", f"/runs/{self._past.number}").classes("rh-link")
        ui.label("/").classes("rh-quiet")

    def _read_phase(self, snapshot: JobSnapshot) -> str:
        if isinstance(snapshot, PastSnapshot):
            return snapshot.row.state
        return super()._read_phase(snapshot)

    def _read_address(self) -> str:
        return f"/runs/{self._past.number}/{quote(self._key.name, safe='')}"
