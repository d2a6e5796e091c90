"""The pages by their addresses."""

from __future__ import annotations

import re

from fastapi import Request
from nicegui import Client, ui

from railhead.client.run.run_files import is_plain
from railhead.client.ui.docs_view import build_doc
from railhead.client.ui.job_view import JobView
from railhead.client.ui.jobs_view import JobsView
from railhead.client.ui.look import label
from railhead.client.ui.page_context import PageContext
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.run_view import RunView
from railhead.client.ui.runs_view import RunsView
from railhead.client.ui.storage_source import NAMESPACE
from railhead.client.ui.viewing import build_frame

NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def register_pages(site: PageContext) -> None:
    """Makes NiceGUI build the pages for each viewer."""

    @ui.page("/")
    def jobs(client: Client, request: Request) -> None:
        JobsView(site, request).build(client)

    @ui.page("/jobs/{namespace}/{name}")
    def job(client: Client, request: Request, namespace: str, name: str) -> None:
        if not NAME.fullmatch(namespace) or not NAME.fullmatch(name):
            with build_frame(site, "Railhead"):
                label("No TrainJob can have this name.")
            return
        JobView(site, TrainJobName(namespace, name), request).build(client)

    @ui.page("/runs/{number}")
    def runs(client: Client, number: int) -> None:
        if not 0 <= number < len(site.storages):
            with build_frame(site, "Railhead"):
                label("The command has named no such storage.")
            return
        RunsView(site, site.storages[number]).build(client)

    @ui.page("/runs/{number}/{name}")
    def run(client: Client, request: Request, number: int, name: str) -> None:
        if not 0 <= number < len(site.storages) or not is_plain(name):
            with build_frame(site, "Railhead"):
                label("There is no such storage, or no run can have this name.")
            return
        RunView(site, site.storages[number], TrainJobName(NAMESPACE, name), request).build(client)

    @ui.page("/docs/{path:path}")
    def doc(path: str) -> None:
        with build_frame(site, "Documentation"):
            build_doc(path)
