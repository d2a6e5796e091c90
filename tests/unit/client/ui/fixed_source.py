"""Jobs for the page that a test has written, in place of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from railhead.client.cluster.job_rows import JobNumbers, read_record
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.explain.rank_use import RankAnswers
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.open_run import ReaderNeeded
from railhead.client.run.run_files import RunFile, RunFiles
from railhead.client.ui.page_source import TrainJobName
from railhead.json_object import Object
from railhead.kube.informer import OnChange
from tests.unit.client.jobs import make_snapshot


@dataclass(frozen=True)
class FolderFiles:
    """A run's folder of this machine, read in this process."""

    root: Path

    @property
    def place(self) -> str:
        return str(self.root)

    async def find(self, names: Sequence[str]) -> list[RunFile]:
        if not self.root.is_dir():
            raise ClientError(f"cannot read {self.root}")
        found = []
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_file() and any(name == each or name.startswith(f"{each}/") for each in names):
                found.append(RunFile(name, path.stat().st_size, path.stat().st_mtime))
        return found

    async def stream(self, files: Sequence[RunFile]) -> AsyncIterator[tuple[RunFile, bytes]]:
        for file in files:
            data = (self.root / file.name).read_bytes()
            if data:
                yield file, data

    async def check(self, files: Sequence[RunFile]) -> list[FileCheck]:
        return [FileCheck("", None) for _ in files]


class FixedSource:
    """Holds jobs that a test changes by `put` and `remove`.

    Attributes:
        folders: of the jobs' runs; a job without one needs a reader's pod, and one in `readers` gets it then.
        lines: what each job's pods print.
        reads: how often each job was read in full.
    """

    place = "namespace team-a"

    def __init__(self, jobs: Iterable[Object] = ()) -> None:
        self.jobs: dict[TrainJobName, Object] = {}
        self.pods: dict[TrainJobName, Sequence[Object]] = {}
        self.events: dict[TrainJobName, Sequence[Object]] = {}
        self.folders: dict[TrainJobName, Path] = {}
        self.readers: dict[TrainJobName, Path] = {}
        self.lines: dict[TrainJobName, list[str]] = {}
        self.ranks: dict[TrainJobName, RankAnswers] = {}
        self.failures: list[ClientError] = []
        self.reads: list[TrainJobName] = []
        self.watchers = 0
        self.detail_watchers: list[Callable[[], None]] = []
        self.readers_started = 0
        self._on_change: list[OnChange[JobNumbers]] = []
        for job in jobs:
            self.jobs[self.name(job)] = job

    @staticmethod
    def name(job: Object) -> TrainJobName:
        return TrainJobName(job["metadata"]["namespace"], job["metadata"]["name"])

    def put(self, job: Object) -> None:
        key = self.name(job)
        self.jobs[key] = job
        for on_change in self._on_change:
            on_change(None, read_record(job))

    def remove(self, key: TrainJobName) -> None:
        job = self.jobs.pop(key)
        for on_change in self._on_change:
            on_change(read_record(job), None)

    async def watch_jobs(self, on_change: OnChange[JobNumbers], on_list: Callable[[], None]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        for job in self.jobs.values():
            on_change(None, read_record(job))
        on_list()
        self._on_change.append(on_change)
        self.watchers += 1
        try:
            await asyncio.Event().wait()
        finally:
            self._on_change.remove(on_change)
            self.watchers -= 1

    async def read_snapshot(self, key: TrainJobName) -> JobSnapshot:
        self.reads.append(key)
        if key not in self.jobs:
            raise ClientError(f"cannot read the TrainJob {key}: not found", ExitCode.NOT_FOUND)
        return make_snapshot(self.jobs[key], self.pods.get(key, ()), self.events.get(key, ()))

    async def watch_details(self, job: Object, on_change: Callable[[], None]) -> None:
        self.detail_watchers.append(on_change)
        try:
            await asyncio.Event().wait()
        finally:
            self.detail_watchers.remove(on_change)

    @asynccontextmanager
    async def open_files(
        self, job: Object, *, is_own: bool, may_start_reader: bool, say: Callable[[str], None]
    ) -> AsyncIterator[RunFiles]:
        key = self.name(job)
        folder = self.folders.get(key)
        if folder is None:
            if not may_start_reader or key not in self.readers:
                raise ReaderNeeded("no pod that runs mounts /runs; a reader's pod must be started")
            self.readers_started += 1
            folder = self.readers[key]
        yield FolderFiles(folder)

    async def follow_logs(self, key: TrainJobName, wanted: Wanted, printer: Printer) -> None:
        if key not in self.lines:
            printer.remark(f"{key.name} has no pods yet")
        shown = 0
        while True:
            lines = self.lines.get(key, [])
            for line in lines[shown:]:
                if wanted.rank is None or line.startswith(f"(rank {wanted.rank}) "):
                    printer.line(line)
                    await printer.drain()
                shown += 1
            await asyncio.sleep(0.05)

    async def ask_ranks(self, key: TrainJobName) -> RankAnswers:
        if key not in self.ranks:
            return RankAnswers(problems=(f"{key.name} has no running head pod",))
        return self.ranks[key]
