"""The archive of one pod: takes its lines, and uploads what changed, soon when a rank ends, else at intervals.

A thread waits for the uploads, one at a time, so that training never waits for the storage. The end of the pod waits
for the last lines, but only a few seconds, and not at all if an upload hangs already.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Callable, Mapping, Optional

from railhead.contract import environment
from railhead.contract.callbacks import ignore
from railhead.contract.job_input import JobInput
from railhead.driver.archive.archive_layout import (
    INTERVAL_SECONDS,
    RANK_0_INTERVAL_SECONDS,
    TRAIN,
    WORKER,
    name_writer,
    plan_wait,
)
from railhead.driver.archive.archive_upload import NOT_BEGUN, Upload, open_folder, remove_attempt
from railhead.driver.archive.spool import Spool
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.pod_processes import kill_child, start_piped_child
from railhead.driver.container.session_logs import TRAIN_LOGS, LogFile, list_logs, read_new
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.log import log, never_raises
from railhead.driver.messages.redaction import redact

UPLOAD_SECONDS = 120.0  # then it hangs, and is killed
LAST_UPLOAD_SECONDS = 5.0  # that the end of a pod waits for
TRIED_AGAIN_SECONDS = 1.0  # the same, after an upload that failed
KILLED_SECONDS = 5.0  # for the end of a process that was killed
SURPLUS_SECONDS = 600.0  # between two looks of the head at the size of the whole archive
# From the end of a rank to the upload of its last lines. The ranks of a pod end together, and often so does the pod.
SETTLE_SECONDS = 2.0

Send = Callable[[Upload], str]  # returns what went wrong, or an empty string


class Archive:
    """The archive of a pod whose job keeps no logs. Its methods may be called from any thread, and never raise."""

    def add(self, source: str, line: str) -> None: ...

    def add_of_rank(self, rank: Optional[int], line: str) -> None:
        """Adds a line of a rank. None stands for what a process prints before its rank is known."""
        self.add(WORKER if rank is None else str(rank), line)

    def upload_soon(self) -> None: ...

    def discard_after_success(self) -> None:
        """Removes the attempt's files if only those of failures are kept. Blocks for as long as the storage does.

        Call when the run's folder has the success: a worker pod that is uploading looks for it there.
        """

    def finish(self) -> None:
        """Uploads the last lines, within a few seconds."""


class StoredArchive(Archive):
    """The archive of a pod. `template`: an upload without changes, with the limit of a head pod."""

    def __init__(
        self,
        spool: Spool,
        template: Upload,
        *,
        send: Send,
        read_more: Callable[[], None] = ignore,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spool = spool
        self._template = template
        self._send = send
        self._read_more = read_more
        self._chance = chance
        self._monotonic = monotonic
        self._uploaded: dict[str, int] = {}
        self._failures = 0
        self._has_lost = False
        self._is_unwanted = False
        # The pods of a job start together, and must not all upload together.
        self._due = monotonic() + INTERVAL_SECONDS * chance()
        self._is_sooner = threading.Condition()
        self._turn = threading.Lock()
        self._began: Optional[float] = None  # the upload that is in progress
        self._looked_at = float("-inf")

    def start(self) -> None:
        threading.Thread(target=self._run, name="railhead-archive", daemon=True).start()

    def add(self, source: str, line: str) -> None:
        is_news = source == "0" and not self._spool.has("0")
        self._spool.add(source, line)
        # Its lines are uploaded more often.
        if is_news:
            self._upload_within(RANK_0_INTERVAL_SECONDS)

    def upload_soon(self) -> None:
        self._upload_within(SETTLE_SECONDS)

    def _upload_within(self, seconds: float) -> None:
        with self._is_sooner:
            self._due = min(self._due, self._monotonic() + seconds)
            self._is_sooner.notify()

    @never_raises("remove the logs of an attempt that has succeeded")
    def discard_after_success(self) -> None:
        attempt = self._template
        if attempt.only_failed:
            with self._turn:
                self._is_unwanted = True
                remove_attempt(attempt, open_folder(attempt.storage_path, attempt.run_name))

    def finish(self) -> None:
        began = self._began
        is_hanging = began is not None and self._monotonic() - began > LAST_UPLOAD_SECONDS
        if not is_hanging:
            last = threading.Thread(target=self.upload, daemon=True)
            last.start()
            last.join(TRIED_AGAIN_SECONDS if self._failures else LAST_UPLOAD_SECONDS)

    def _run(self) -> None:
        while True:
            with self._is_sooner:
                while (left := self._due - self._monotonic()) > 0:
                    self._is_sooner.wait(left)
                # Or the next one would be due at once. Whoever wants one during this upload sets it again.
                self._due = float("inf")
            self.upload()
            self._upload_within(
                plan_wait(has_rank_0=self._spool.has("0"), failures=self._failures, chance=self._chance())
            )

    def upload(self) -> None:
        """Waits for the upload in progress, if there is one."""
        with self._turn:
            self._began = self._monotonic()
            try:
                if not self._is_unwanted:
                    self._upload()
            except Exception as error:
                # The next upload tries again; a thread that ends would upload nothing more.
                self._count_failure(describe_exception(error))
            finally:
                self._began = None

    def _upload(self) -> None:
        self._read_more()
        sizes = self._spool.write_all()
        if self._spool.problem and not self._has_lost:
            self._has_lost = True
            log(f"cannot keep all lines for spec.logs.archive on the pod's own disk: {self._spool.problem}")
        # A file only grows, except for the one with the line about a gap.
        write = {name: size for name, size in sizes.items() if self._uploaded.get(name) != size}
        delete = [name for name in self._uploaded if name not in sizes]
        limit = None
        if self._monotonic() - self._looked_at >= SURPLUS_SECONDS:
            limit = self._template.limit
        if not (write or delete) and limit is None:
            return
        problem = self._send(replace(self._template, write=write, delete=delete, limit=limit))
        if problem == NOT_BEGUN:
            return
        if problem:
            self._count_failure(problem)
            return
        self._failures = 0
        self._uploaded = sizes
        if limit is not None:
            self._looked_at = self._monotonic()

    def _count_failure(self, problem: str) -> None:
        if not self._failures:
            log(f"cannot copy the logs to run.storagePath (spec.logs.archive), which is tried again: {problem}")
        self._failures += 1


def start_archive(role: str, pod: Pod, job: JobInput, variables: Mapping[str, str]) -> Archive:
    """Starts the archive of a pod. `role`: HEAD or WORKER; `variables`: the environment of the container."""
    if role != WORKER and job.archive_wanted not in ("", job.archive_logs):
        log(f"spec.logs.archive {job.archive_wanted} is reduced to {job.archive_logs}: the operator allows no more")
    if job.archive_logs == "None":
        return Archive()
    folder = pod.temp / "archive"
    folder.mkdir(parents=True, exist_ok=True)
    writer = name_writer(role, pod=variables.get(environment.POD_NAME, ""), uid=pod.uid)
    spool = Spool(folder, writer, limit=job.archive_per_rank)
    template = Upload(
        spool=str(folder),
        storage_path=job.storage_path,
        run_name=job.run_name,
        uid=job.uid,
        attempt=pod.attempt,
        only_failed=job.archive_logs == "Failed",
        limit=None if role == WORKER else job.archive_per_run,
    )
    # Without what Ray gets: the user's folders would be on its path.
    send = partial(send_upload, pod, dict(variables))
    archive = StoredArchive(spool, template, send=send, read_more=TrainLogs(pod.temp, spool).read)
    archive.start()
    return archive


class TrainLogs:
    """Ray Train's own log files in this pod, which also have what a rank sends to Python's root logger."""

    def __init__(self, temp: Path, spool: Spool) -> None:
        self._temp = temp
        self._spool = spool
        self._files: dict[Path, LogFile] = {}

    def read(self) -> None:
        for path in list_logs(self._temp, TRAIN_LOGS):
            state = self._files.setdefault(path, LogFile())
            try:
                while data := read_new(path, state):
                    *lines, state.rest = (state.rest + data).split(b"\n")
                    for line in lines:
                        self._spool.add(TRAIN, line.decode(errors="replace"))
            except OSError:  # it vanished
                continue


def send_upload(pod: Pod, variables: Mapping[str, str], upload: Upload, *, timeout: float = UPLOAD_SECONDS) -> str:
    """Runs the upload in a process, whose memory and whose storage that hangs are not ours."""
    order = pod.temp / "archive" / "upload.json"
    try:
        order.write_text(json.dumps(asdict(upload)))
        command = [sys.executable, pod.bundle, "archive", str(order)]
        child = start_piped_child(command, environment=variables, folder="/")
    except OSError as error:
        return describe_exception(error)
    try:
        _, errors = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_child(child)
        # The kernel may hold it in a call to the storage.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=KILLED_SECONDS)
        return f"no response within {timeout:.0f} s"
    if child.returncode:
        return redact(errors.decode(errors="replace").strip())
    return ""
