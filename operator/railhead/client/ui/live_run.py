"""What a run has left in its folder, read again as the job progresses, for all of its viewers.

A driver writes its history each minute, so a folder is read rarely, and only files that have changed are read again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from railhead.api.run_status import list_uids
from railhead.api.status import parse_status
from railhead.client.exit_codes import ClientError
from railhead.client.run.checkpoints import CheckpointRow
from railhead.client.run.curves import Curve, build_curves, describe_gaps, drop_repeated
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.open_run import ReaderNeeded
from railhead.client.run.run_files import RunFile, RunFiles, read_folder
from railhead.client.run.run_results import find_best, read_checkpoints, read_metrics
from railhead.client.ui.live_job import LiveJob
from railhead.client.ui.page_source import PageSource, TrainJobName
from railhead.client.ui.shared import Shared, Versioned
from railhead.contract.run_folder import OWN_FOLDER
from railhead.history import JOURNAL, Record, read_history
from railhead.json_object import Object
from railhead.together import run_together

PAUSE_SECONDS = 15.0
# A folder that takes long to read is read more rarely.
PAUSES_PER_READING = 10
KEPT_BYTES = 32 << 20  # of the files of one run
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class RunContents:
    """What the folder has. `gaps`: what is missing in it, as sentences."""

    curves: tuple[Curve, ...]
    checkpoints: tuple[CheckpointRow, ...]
    journal: tuple[Record, ...]
    gaps: tuple[str, ...]


@dataclass
class KeptFiles:
    """A run's folder of which files that have not changed are read once. A RunFiles itself.

    Attributes:
        kept: the contents, at most KEPT_BYTES.
    """

    files: RunFiles
    kept: dict[RunFile, bytes] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return self.files.place

    async def find(self, names: Sequence[str]) -> list[RunFile]:
        return await self.files.find(names)

    async def check(self, files: Sequence[RunFile]) -> list[FileCheck]:
        return await self.files.check(files)

    async def stream(self, files: Sequence[RunFile]) -> AsyncIterator[tuple[RunFile, bytes]]:
        known = {file: self.kept[file] for file in files if file in self.kept}
        read: dict[RunFile, bytearray] = {}
        async for file, chunk in self.files.stream([file for file in files if file not in known]):
            read.setdefault(file, bytearray()).extend(chunk)
        for file in files:
            data = known.get(file)
            if data is None and file in read:
                data = bytes(read.pop(file))
                self._keep(file, data)
            if data:
                yield file, data

    def _keep(self, file: RunFile, data: bytes) -> None:
        for older in [each for each in self.kept if each.name == file.name]:
            del self.kept[older]
        if len(data) + sum(map(len, self.kept.values())) <= KEPT_BYTES:
            self.kept[file] = data


class LiveRun(Versioned):
    """The contents of a job's run.

    Attributes:
        contents: None before they were read first.
        problem: why they could not be read; "" = they could.
        needs_reader: whether only a reader's pod could read them, for which `allow_reader` asks.
        is_reading: whether they are being read now.
        remark: what the way to the folder says, such as that a pod starts; the newest one.
    """

    def __init__(
        self, source: PageSource, jobs: Shared[LiveJob], key: TrainJobName, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__()
        self.key = key
        self.contents: RunContents | None = None
        self.problem = ""
        self.needs_reader = False
        self.is_reading = False
        self.remark = ""
        self._source = source
        self._jobs = jobs
        self._sleep = sleep
        self._kept: dict[RunFile, bytes] = {}
        self._may_start_reader = False
        self._is_asked = asyncio.Event()

    async def run(self) -> None:
        """Reads the folder, and again after changes of the job, until it is cancelled."""
        job = self._jobs.acquire(self.key)
        try:
            while True:
                seen = job.version
                began = time.monotonic()
                if job.snapshot is not None and job.snapshot.status.attempt:
                    await self._read(job.snapshot.job)
                    seconds = time.monotonic() - began
                    await self._pause(max(PAUSE_SECONDS, PAUSES_PER_READING * seconds))
                await self._wait_for_news(job, seen)
        finally:
            self._jobs.release(self.key)

    def allow_reader(self) -> None:
        """Lets the next reading, which begins at once, start a reader's pod."""
        self._may_start_reader = True
        self._is_asked.set()

    async def _pause(self, seconds: float) -> None:
        """Waits for that long, or until a reader's pod is allowed."""
        await run_together(self._sleep(seconds), self._is_asked.wait())

    async def _wait_for_news(self, job: LiveJob, seen: int) -> None:
        await run_together(job.wait(seen), self._is_asked.wait())
        self._is_asked.clear()

    async def _read(self, job: Object) -> None:
        may_start_reader = self._may_start_reader
        self._may_start_reader = False
        self.is_reading = True
        self.tell()
        try:
            opened = self._source.open_files(job, is_own=False, may_start_reader=may_start_reader, say=self._say)
            async with opened as files:
                # Parsing takes long for a long history. No file system of a run is bound to an event loop.
                reading = _read_contents(KeptFiles(files, self._kept), job, self._get_checkpoints())
                self.contents = await asyncio.to_thread(asyncio.run, reading)
            self.needs_reader = False
            self.problem = ""
        except ReaderNeeded as error:
            self.needs_reader = True
            self.problem = str(error)
        except ClientError as error:
            self.needs_reader = False
            self.problem = str(error)
        finally:
            self.is_reading = False
            self.remark = ""
            self.tell()

    def _get_checkpoints(self) -> tuple[CheckpointRow, ...]:
        if self.contents is None:
            return ()
        return self.contents.checkpoints

    def _say(self, text: str) -> None:
        self.remark = text
        self.tell()


async def _read_contents(files: RunFiles, job: Object, known: tuple[CheckpointRow, ...]) -> RunContents:
    """Returns what the folder has; `known`: the checkpoints that an earlier reading found."""
    name = str(job["metadata"]["name"])
    reports, gaps = await read_metrics(files, name, ())
    checkpoints = known
    try:
        checkpoints = tuple(await read_checkpoints(files, find_best(job)))
    except ClientError as error:
        # A job that commits faster than its files can be read has its curves nevertheless.
        gaps.append(str(error))
    segments = await read_folder(files, f"{OWN_FOLDER}/{JOURNAL}")
    uids = list_uids(str(job["metadata"]["uid"]), parse_status(job.get("status")).run)
    journal = read_history(segments, job=uids)
    curves = build_curves(drop_repeated(reports))
    gaps += describe_gaps(journal, "the journal")
    return RunContents(tuple(curves), checkpoints, journal.records, tuple(gaps))
