"""Writes reports into the status: the newest per job, at most one write per job and second.

Touches only the endpoint's own fields, and tests uid and attempt in the same patch, so that a
late report never ends up in another attempt or in another job of the same name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from railhead.api.job import JobKey
from railhead.api.status import JobStatus
from railhead.contract.report import Report
from railhead.controller.report.authority import JobFacts
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied, Gone, KubeError
from railhead.kube.kinds import TRAIN_JOB
from railhead.planning.facts.report import change_by_report, cut_count
from railhead.planning.status_write import build_fields, build_operations

log = logging.getLogger(__name__)
FIELD_MANAGER = "railhead-reports"  # `kubectl get --show-managed-fields` tells these fields from the leader's
PERIOD_SECONDS = 1.0
WRITES_AT_A_TIME = 8
CLOSE_SECONDS = 3.0


def status_fields(report: Report, status: JobStatus) -> dict[str, Any]:
    """The status fields that this report changes, as JSON; None removes a field. Pure."""
    return build_fields(status, change_by_report(report, status))


def is_outrun(report: Report, status: JobStatus) -> bool:
    """Whether the status holds a later report of this attempt. Each report holds the complete state. Pure."""
    known = status.progress
    return known.attempt == report.attempt and cut_count(report.reports) < known.reports


def is_for_nobody(error: KubeError) -> bool:
    """Whether the job is gone, or in another attempt (a failed test is `Denied`). Pure.

    An API server that has just started knows neither our rights nor the CRD for a moment: it answers 401, 403, or a
    404 that is not about the job.
    """
    if isinstance(error, Gone):
        return error.reason == "NotFound"
    return isinstance(error, Denied) and error.status not in (401, 403)


class ReportWriter:
    """One slot per job with a report to write; a newer report replaces an older one."""

    def __init__(
        self,
        client: KubeClient,
        *,
        lookup: Callable[[JobKey], JobFacts | None],
        record_job: Callable[[dict[str, Any]], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self._client = client
        self._lookup = lookup
        self._record_job = record_job
        self._latest: dict[JobKey, Report] = {}
        self._tasks: dict[JobKey, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(WRITES_AT_A_TIME)

    def put(self, report: Report) -> None:
        """Accepts the report; never blocks."""
        key = JobKey(report.namespace, report.name)
        self._latest[key] = report
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._write_until_quiet(key))

    async def close(self) -> None:
        """Writes the reports accepted but not yet written: the driver will not send them again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        left, self._latest = self._latest, {}
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                writes = [self._write(key, report) for key, report in left.items()]
                for result in await asyncio.gather(*writes, return_exceptions=True):
                    if isinstance(result, Exception):  # one job's error must not affect the others
                        log.error("a report was not written: %s: %s", type(result).__name__, result)
        except TimeoutError:
            log.warning("reports of %d jobs were not written in time", len(left))

    async def _write_until_quiet(self, key: JobKey) -> None:
        """Writes at once, then once per period, until no new report arrives."""
        try:
            while (report := self._latest.pop(key, None)) is not None:
                try:
                    async with self._gate:
                        await self._write(key, report)
                except asyncio.CancelledError:
                    self._latest.setdefault(key, report)
                    raise
                await self._sleep(PERIOD_SECONDS)
        finally:
            self._tasks.pop(key, None)

    async def _write(self, key: JobKey, report: Report) -> None:
        facts = self._lookup(key)
        if facts is None or facts.uid != report.uid or facts.status.is_finished:
            return  # the leader has already written the driver's outcome
        if is_outrun(report, facts.status):
            return  # the driver has switched to another replica, which was faster
        fields = status_fields(report, facts.status)
        if not fields:
            return
        body: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": report.uid},
            {"op": "test", "path": "/status/attempt", "value": report.attempt},
        ]
        body += build_operations(fields)
        try:
            answer = await self._client.patch(
                TRAIN_JOB,
                key.name,
                body,
                type_="json",
                namespace=key.namespace,
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except KubeError as error:
            if is_for_nobody(error):
                log.info("%s/%s: dropped a report: %s", key.namespace, key.name, error)
                return
            log.warning("%s/%s: %s; retrying the report", key.namespace, key.name, error)
            self._latest.setdefault(key, report)
        else:
            self._record_job(answer)
