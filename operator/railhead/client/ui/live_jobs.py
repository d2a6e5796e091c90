"""All jobs, by one watch that all viewers of the page share."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from railhead.client.cluster.job_rows import JobNumbers
from railhead.client.exit_codes import ClientError
from railhead.client.ui.page_source import PageSource, TrainJobName
from railhead.client.ui.shared import Versioned

RETRY_SECONDS = 5.0
# Jobs whose deletion is remembered, for viewers that have not heard of it.
MOST_GONE = 1000


@dataclass(frozen=True)
class JobChanges:
    """What is new since a version.

    Attributes:
        is_all: whether `records` are all jobs, since it is not known what has gone.
    """

    version: int
    records: tuple[JobNumbers, ...]
    gone: tuple[TrainJobName, ...]
    is_all: bool


class LiveJobs(Versioned):
    """The jobs as they are now.

    Attributes:
        is_listed: whether the first list is complete.
        problem: why the watch has failed, until it works again; "" = it works.
    """

    def __init__(self, source: PageSource) -> None:
        super().__init__()
        self.is_listed = False
        self.problem = ""
        self._source = source
        self._records: dict[TrainJobName, tuple[int, JobNumbers]] = {}
        self._gone: OrderedDict[TrainJobName, int] = OrderedDict()
        self._forgotten = 0  # the newest version of a deletion that is not remembered any more
        self._unseen: set[TrainJobName] = set()

    async def run(self) -> None:
        """Watches until it is cancelled, again after each error."""
        while True:
            # A new watch does not tell what has gone since the last one.
            self._unseen = set(self._records)
            try:
                await self._source.watch_jobs(self._on_change, self._on_list)
            except ClientError as error:
                self.problem = str(error)
                self.tell()
            await asyncio.sleep(RETRY_SECONDS)

    def find(self, key: TrainJobName) -> JobNumbers | None:
        known = self._records.get(key)
        if known is None:
            return None
        return known[1]

    def find_version(self, key: TrainJobName) -> int:
        """Returns the version of the job's last change, 0 if it is not known."""
        known = self._records.get(key)
        if known is None:
            return self._gone.get(key, 0)
        return known[0]

    def list_keys(self) -> list[TrainJobName]:
        """Returns the names of all jobs, in order."""
        return sorted(self._records)

    def read_since(self, version: int) -> JobChanges:
        """Returns what has changed since this version; 0 = everything."""
        is_all = version <= self._forgotten
        if is_all:
            version = 0
        return JobChanges(
            self.version,
            tuple(record for changed, record in self._records.values() if changed > version),
            tuple(key for key, changed in self._gone.items() if changed > version and not is_all),
            is_all,
        )

    def _on_change(self, old: JobNumbers | None, new: JobNumbers | None) -> None:
        record = new or old
        assert record is not None
        key = TrainJobName(record.row.namespace, record.row.name)
        self._unseen.discard(key)
        if new is None:
            self._remove(key)
            return
        known = self._records.get(key)
        if known is not None and known[1] == new:
            # No column has changed, so there is no news for the viewers.
            return
        self._gone.pop(key, None)
        self._records[key] = (self.version + 1, new)
        self.tell()

    def _remove(self, key: TrainJobName) -> None:
        if self._records.pop(key, None) is None:
            return
        self._gone[key] = self.version + 1
        while len(self._gone) > MOST_GONE:
            _, self._forgotten = self._gone.popitem(last=False)
        self.tell()

    def _on_list(self) -> None:
        """Removes the jobs that the complete list does not have."""
        self.is_listed = True
        self.problem = ""
        for key in self._unseen:
            self._remove(key)
        self._unseen = set()
        self.tell()
