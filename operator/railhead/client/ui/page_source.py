"""What the page needs of the world: jobs, their pods and events, the files of their runs. Tests bring another one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from railhead.client.cluster.job_rows import JobNumbers
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.rank_use import RankAnswers
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.run_files import RunFiles
from railhead.json_object import Object
from railhead.kube.informer import OnChange


@dataclass(frozen=True, slots=True, order=True)
class TrainJobName:
    """Names a TrainJob."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PageSource(Protocol):
    """Reads. Each method raises ClientError, with a message for the user."""

    @property
    def place(self) -> str:
        """Tells which jobs it has, such as "namespace team-a"."""
        ...

    async def watch_jobs(self, on_change: OnChange[JobNumbers], on_list: Callable[[], None]) -> None:
        """Calls `on_change` for each job and each change, until it is cancelled; `on_list` after the first list."""
        ...

    async def read_snapshot(self, key: TrainJobName) -> JobSnapshot:
        """Returns the job with its pods and events."""
        ...

    async def watch_details(self, job: Object, on_change: Callable[[], None]) -> None:
        """Calls `on_change` when a pod or an event of the job changes, until it is cancelled."""
        ...

    def open_files(
        self, job: Object, *, is_own: bool, may_start_reader: bool, say: Callable[[str], None]
    ) -> AbstractAsyncContextManager[RunFiles]:
        """Opens the folder of the job's run, or with `is_own` the job's own. Raises ReaderNeeded too."""
        ...

    async def follow_logs(self, key: TrainJobName, wanted: Wanted, printer: Printer) -> None:
        """Prints the logs of the job's pods, and of those to come, until the job is over."""
        ...

    async def ask_ranks(self, key: TrainJobName) -> RankAnswers:
        """Returns the Python stacks of all ranks and the use of their GPUs, by commands in the head pod."""
        ...
