"""One job in full, kept up to date by watches as long as at least one viewer looks at it, and shared by all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.ui.live_jobs import LiveJobs
from railhead.client.ui.page_source import PageSource, TrainJobName
from railhead.client.ui.shared import Versioned
from railhead.together import run_together

SHORTEST_SECONDS = 1.0  # between two readings of a job that changes all the time
RETRY_SECONDS = 5.0
Sleep = Callable[[float], Awaitable[None]]


class LiveJob(Versioned):
    """A job, its pods and its events.

    Attributes:
        snapshot: None before the first answer; that of a deleted job stays.
        is_gone: whether there is no such job, or none any more.
        problem: why it could not be read; "" = it could.
    """

    def __init__(self, source: PageSource, jobs: LiveJobs, key: TrainJobName, *, sleep: Sleep = asyncio.sleep) -> None:
        super().__init__()
        self.key = key
        self.snapshot: JobSnapshot | None = None
        self.is_gone = False
        self.problem = ""
        self._source = source
        self._jobs = jobs
        self._sleep = sleep
        self._is_stale = asyncio.Event()

    async def run(self) -> None:
        """Reads the job after each change, until it is cancelled."""
        while True:
            try:
                await self._follow()
            except ClientError as error:
                self.is_gone = error.code == ExitCode.NOT_FOUND
                self.problem = "" if self.is_gone else str(error)
                self.tell()
            seen = self._jobs.find_version(self.key)
            await run_together(self._sleep(RETRY_SECONDS), self._wait_for_job(seen))

    async def _follow(self) -> None:
        """Reads as long as the job has the same uid."""
        # Taken before the reading: a change that comes while the job is being read would be missed otherwise.
        seen = self._jobs.find_version(self.key)
        snapshot = await self._read()
        await run_together(
            self._source.watch_details(snapshot.job, self._is_stale.set),
            self._read_again(str(snapshot.job["metadata"]["uid"]), seen),
        )

    async def _read_again(self, uid: str, seen: int) -> None:
        while True:
            await run_together(self._is_stale.wait(), self._wait_for_job(seen))
            self._is_stale.clear()
            seen = self._jobs.find_version(self.key)
            snapshot = await self._read()
            if snapshot.job["metadata"]["uid"] != uid:
                return
            await self._sleep(SHORTEST_SECONDS)

    async def _read(self) -> JobSnapshot:
        snapshot = await self._source.read_snapshot(self.key)
        self.snapshot = snapshot
        self.is_gone = False
        self.problem = ""
        self.tell()
        return snapshot

    async def _wait_for_job(self, seen: int) -> None:
        """Returns when the watch of all jobs has something newer of this one."""
        while self._jobs.find_version(self.key) == seen:
            await self._jobs.wait(self._jobs.version)
