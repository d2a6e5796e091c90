"""What all pages of one `railhead ui` share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from railhead.client.ui.live_job import LiveJob
from railhead.client.ui.live_jobs import LiveJobs
from railhead.client.ui.live_run import LiveRun
from railhead.client.ui.page_source import PageSource, TrainJobName
from railhead.client.ui.shared import Shared
from railhead.client.ui.storage_source import StorageSource


@dataclass
class PageContext:
    """The jobs and runs that viewers share.

    Attributes:
        is_dark: what the user has chosen; None = as the browser says.
        storages: whose runs the page shows, too.
    """

    source: PageSource
    jobs: LiveJobs
    details: Shared[LiveJob]
    runs: Shared[LiveRun]
    is_dark: bool | None = None
    storages: list[StorageRuns] = field(default_factory=list)


class StorageRuns:
    """The runs of one storage, which are read as long as somebody looks at them.

    Attributes:
        number: in the addresses of their pages.
        site: the runs as jobs.
    """

    def __init__(self, number: int, source: StorageSource) -> None:
        self.number = number
        self.source = source
        self.site = build_context(source)
        self._viewers = 0
        self._reading: asyncio.Task[None] | None = None

    def acquire(self) -> None:
        """Counts one more viewer, who must call `release`. The first one starts the reading."""
        self._viewers += 1
        if self._reading is None:
            self._reading = asyncio.create_task(self.site.jobs.run())

    def release(self) -> None:
        """Counts one viewer less. With the last one the reading ends."""
        self._viewers -= 1
        if not self._viewers and self._reading is not None:
            self._reading.cancel()
            self._reading = None


def build_context(source: PageSource, storages: Sequence[StorageSource] = ()) -> PageContext:
    """Returns a context whose `jobs.run()` must run. Raises nothing: a storage is read when somebody looks at it."""
    jobs = LiveJobs(source)

    def make_job(key: TrainJobName) -> LiveJob:
        return LiveJob(source, jobs, key)

    details = Shared(make_job)

    def make_run(key: TrainJobName) -> LiveRun:
        return LiveRun(source, details, key)

    past = [StorageRuns(number, storage) for number, storage in enumerate(storages)]
    return PageContext(source, jobs, details, Shared(make_run), storages=past)
