"""Keeps a run's history in its folder: each report of rank 0, and the driver's transitions (`contract.history_format`).

The steps append lines to files of the pod. A thread takes them to the storage every minute, behind the fence, so
training and the controller never wait for that; the driver's process takes what is left when the attempt ends.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Callable, Optional

from railhead.contract import environment
from railhead.contract.history_format import JOURNAL, METRICS, Record
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.log import never_raises
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import GroupStatus, Metrics, TrainingReport, WorkerGroup
from railhead.driver.storage.claims import Claim
from railhead.driver.storage.history_records import build_metrics, hide, stamp
from railhead.driver.storage.history_segments import Segments, Uploader, choose_spool
from railhead.driver.storage.run_folder_files import PrivateFolder, RunFolder
from railhead.driver.train_controller.journal import describe_controller, describe_driver, describe_group
from railhead.driver.train_controller.worker_group import Group

END_SECONDS = 2.0  # that the end of a fit() waits for the storage


class HistoryStep(ControllerStep):
    """Appends what each call brings. Comes after the progress, whose changes it looks for."""

    def __init__(self, group: Group, mailbox: Mailbox, run: RunContext) -> None:
        self._group = group
        self._mailbox = mailbox
        self._attempt = int(os.environ.get(environment.ATTEMPT) or 1)
        spool = choose_spool(Path(os.environ[environment.TEMP]), fit=run.fit, is_own=run.is_own)
        pod = os.environ.get(environment.POD_UID, "")
        claim = Claim.parse(run.claim)
        job = claim.uid if claim is not None else ""
        self._metrics = Segments(spool, METRICS, job=job, attempt=self._attempt, pod=pod)
        self._journal = Segments(spool, JOURNAL, job=job, attempt=self._attempt, pod=pod)
        self._controller = mailbox.controller.read()
        self._driver = mailbox.driver.read()
        self._workers = 0
        self._uploader: Optional[Uploader] = None

    @never_raises("keep the run's history")
    def after_state(self, name: str) -> None:
        self._look()

    @never_raises("keep the run's history")
    def after_group_start(self, worker_group: WorkerGroup) -> None:
        workers = len(worker_group.get_workers())
        self._note([describe_group(self._workers, workers)])
        self._workers = workers
        folder = self._group.folder
        check = self._group.check_fence
        # Without a folder this head has not claimed the run, and may write nothing into it.
        if folder is not None and self._uploader is None:
            self._uploader = Uploader(functools.partial(self._upload, folder, check))

    @never_raises("keep the run's history")
    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        self._look()

    @never_raises("keep the run's history")
    def after_report(self, report: TrainingReport, metrics: Metrics) -> None:
        self._look()
        beat = self._controller.heartbeat
        reports = self._controller.progress.reports
        position = {"report": reports, "workers": self._workers, "step": beat.steps.step if beat else None}
        self._metrics.append({**stamp(self._attempt), **position, **build_metrics(metrics)})

    @never_raises("keep the run's history")
    def after_finish(self) -> None:
        self._look()
        if self._uploader is not None:
            self._uploader.end(END_SECONDS)

    def _look(self) -> None:
        controller, self._controller = self._controller, self._mailbox.controller.read()
        driver, self._driver = self._driver, self._mailbox.driver.read()
        self._note(describe_controller(controller, self._controller))
        self._note(describe_driver(driver, self._driver))

    def _note(self, records: Iterable[Record]) -> None:
        for record in records:
            self._journal.append({**stamp(self._attempt), **hide(record)})

    def _upload(self, folder: RunFolder, check: Callable[[], None]) -> None:
        for segments in (self._journal, self._metrics):
            segments.upload(PrivateFolder(folder, segments.kind, check))
