"""The runs of a storage as jobs of the page, from their records and folders: without a cluster and their TrainJobs.

The user has named the storage with the command, so the user's own credentials go there, as with `railhead runs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from railhead.client.cluster.job_rows import JobNumbers, JobRow
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.explain.past_job import PastSnapshot, build_snapshot
from railhead.client.explain.rank_use import RankAnswers
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.run_files import RunFiles
from railhead.client.run.run_list import RunRow, choose_run_folder, list_runs, read_record, read_records
from railhead.client.run.run_storage import RunStorage
from railhead.client.ui.page_source import TrainJobName
from railhead.contract.run_record import RunRecord
from railhead.json_object import Object
from railhead.kube.informer import OnChange

PERIOD_SECONDS = 60.0  # in which a driver writes its record
NAMESPACE = "runs"  # of the names of runs
NO_PODS = "a run of a storage has no pods; choose an attempt of its archive"
Sleep = Callable[[float], Awaitable[None]]


@dataclass
class StorageSource:
    """Reads one storage.

    Attributes:
        records: as they were read last.
        notes: which folders have records that cannot be read, as sentences.
    """

    storage: RunStorage
    sleep: Sleep = asyncio.sleep
    records: Mapping[str, RunRecord] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return self.storage.place

    def list_rows(self) -> list[RunRow]:
        """Returns a row per run, as they were read last."""
        return list_runs(self.records, now=datetime.now(UTC))

    async def watch_jobs(self, on_change: OnChange[JobNumbers], on_list: Callable[[], None]) -> None:
        """Reads the records once a minute."""
        known: dict[str, JobNumbers] = {}
        while True:
            found = await read_records(self.storage)
            self.records = found.records
            self.notes = found.notes
            now = {row.name: build_numbers(row) for row in self.list_rows()}
            for name, numbers in now.items():
                on_change(known.get(name), numbers)
            for name in known.keys() - now.keys():
                on_change(known[name], None)
            known = now
            on_list()
            await self.sleep(PERIOD_SECONDS)

    async def read_snapshot(self, key: TrainJobName) -> PastSnapshot:
        record = await read_record(self.storage, key.name)
        place = self.storage.open_folder(key.name).place
        return build_snapshot(key.name, record, place, now=datetime.now(UTC))

    async def watch_details(self, job: Object, on_change: Callable[[], None]) -> None:  # noqa: ARG002
        while True:
            await self.sleep(PERIOD_SECONDS)
            on_change()

    @asynccontextmanager
    async def open_files(
        self,
        job: Object,
        *,
        is_own: bool,
        may_start_reader: bool,  # noqa: ARG002
        say: Callable[[str], None],  # noqa: ARG002
    ) -> AsyncIterator[RunFiles]:
        name = str(job["status"]["run"]["name"])
        folder = name
        if not is_own:
            folder = choose_run_folder(name, await read_record(self.storage, name))
        yield self.storage.open_folder(folder)

    async def follow_logs(self, key: TrainJobName, wanted: Wanted, printer: Printer) -> None:  # noqa: ARG002
        raise ClientError(NO_PODS, ExitCode.NOT_FOUND)

    async def ask_ranks(self, key: TrainJobName) -> RankAnswers:  # noqa: ARG002
        return RankAnswers(problems=(NO_PODS,))


def build_numbers(row: RunRow) -> JobNumbers:
    """Returns a run as one of all jobs."""
    goodput = ""
    if row.goodput is not None:
        goodput = f"{row.goodput}%"
    shown = JobRow(
        namespace=NAMESPACE,
        name=row.name,
        phase=row.state,
        progress="",
        remaining="",
        attempt=row.attempts,
        waits_for=row.reason,
        created=row.started,
        workers="",
        head="",
        checkpoint="",
        goodput=goodput,
        gpus=0,
    )
    return JobNumbers(shown, "", None, None, None, row.goodput, row.seconds)
