"""The page's jobs from a cluster, with the rights of the user of the command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from railhead.api.namespace_losses import NamespaceLosses
from railhead.client.cluster.connection import Cluster, explaining
from railhead.client.cluster.job_rows import JobNumbers, read_record
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.explain.rank_use import RankAnswers, ask_ranks
from railhead.client.run.follow_logs import follow_logs
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.open_run import open_run
from railhead.client.run.run_files import RunFiles
from railhead.client.ui.page_source import TrainJobName
from railhead.contract.loss_rate import JobLosses
from railhead.json_object import Object, text
from railhead.kube.bodies import keep_all
from railhead.kube.client import Scope
from railhead.kube.informer import OnChange
from railhead.kube.kinds import EVENT
from railhead.together import run_together


@dataclass
class ClusterSource:
    """Reads through one connection.

    Attributes:
        endpoints: servers of stores that the user trusts.
        reader_image: of a reader's pod; None = the job's.
    """

    cluster: Cluster
    selector: str = ""
    endpoints: Sequence[str] = ()
    reader_image: str | None = None
    _losses: NamespaceLosses = field(default_factory=NamespaceLosses, init=False)
    _is_listed: bool = field(default=False, init=False)

    @property
    def place(self) -> str:
        return self.cluster.place

    async def watch_jobs(self, on_change: OnChange[JobNumbers], on_list: Callable[[], None]) -> None:
        self._is_listed = False
        # A new watch tells of all jobs as if they were new, and of none that has gone since the last one.
        self._losses.clear()

        def note(old: JobNumbers | None, new: JobNumbers | None) -> None:
            self._note_losses(old, new)
            on_change(old, new)

        jobs = await self.cluster.open_jobs(self.selector, read_record, note)

        async def tell_first_list() -> None:
            await jobs.answered.wait()
            self._is_listed = True
            on_list()
            await asyncio.Event().wait()

        with explaining("watch trainjobs"):
            await run_together(jobs.run(), tell_first_list())

    async def read_snapshot(self, key: TrainJobName) -> JobSnapshot:
        return await self._open(key.namespace).read_snapshot(key.name, self._sum_losses(key.namespace))

    def _sum_losses(self, namespace: str) -> JobLosses | None:
        """Returns those of the namespace's jobs, by the watch, so that no viewer's job lists all others; None before
        the list is complete, and for a page of some jobs only."""
        if self.selector or not self._is_listed:
            return None
        return self._losses.sum_up(namespace)

    def _note_losses(self, old: JobNumbers | None, new: JobNumbers | None) -> None:
        if old is not None:
            self._losses.add(old.row.namespace, old.losses, times=-1)
        if new is not None:
            self._losses.add(new.row.namespace, new.losses)

    async def watch_details(self, job: Object, on_change: Callable[[], None]) -> None:
        cluster = self._open(text(job["metadata"], "namespace"))
        uid = str(job["metadata"]["uid"])
        events = Scope(EVENT, cluster.namespace, field_selector=f"involvedObject.uid={uid}")

        def tell(_old: object, _new: object) -> None:
            on_change()

        async def watch_pods() -> None:
            await _bear_denial(cluster.watch_pods(uid, tell))

        async def watch_events() -> None:
            await _bear_denial(cluster.watch(events, tell, keep_all))

        await run_together(watch_pods(), watch_events())

    def open_files(
        self, job: Object, *, is_own: bool, may_start_reader: bool, say: Callable[[str], None]
    ) -> AbstractAsyncContextManager[RunFiles]:
        return open_run(
            self._open(text(job["metadata"], "namespace")),
            job,
            say,
            reader_image=self.reader_image,
            endpoints=self.endpoints,
            is_own=is_own,
            may_start_reader=may_start_reader,
        )

    async def follow_logs(self, key: TrainJobName, wanted: Wanted, printer: Printer) -> None:
        await follow_logs(self._open(key.namespace), key.name, wanted, printer)

    async def ask_ranks(self, key: TrainJobName) -> RankAnswers:
        return await ask_ranks(self._open(key.namespace), key.name)

    def _open(self, namespace: str) -> Cluster:
        return replace(self.cluster, namespace=namespace)


async def _bear_denial(watch: Awaitable[None]) -> None:
    """Waits instead of a watch that the user may not have: the snapshot says what could not be read."""
    try:
        await watch
    except ClientError as error:
        if error.code != ExitCode.DENIED:
            raise
        await asyncio.Event().wait()
