"""Brings reports into the status: the newest per job, at most one write per job and second.

Touches only the endpoint's own fields, under a compare on uid and attempt, so that a late
word never lands on another attempt or on another job of the same name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from railhead.api.job import JobKey
from railhead.api.status import JobStatus
from railhead.contract.report import Report
from railhead.controller.report.authority import JobFacts
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, Gone, KubeError
from railhead.kube.kinds import TRAIN_JOB

log = logging.getLogger(__name__)
PERIOD_SECONDS = 1.0
WRITES_AT_A_TIME = 8
MAX_METRICS = 64


def metrics_of(values: Any) -> dict[str, str]:
    """At most 64 metrics of bounded length."""
    items = list(values.items())[:MAX_METRICS] if isinstance(values, dict) else []
    return {str(key)[:128]: str(value)[:256] for key, value in items}


def status_fields(report: Report, status: JobStatus) -> dict[str, Any]:
    """The status fields that this report changes, as JSON. Pure."""
    current = status.model_dump(by_alias=True, mode="json")
    wanted: dict[str, Any] = {
        "progress": {
            "attempt": report.attempt,
            "state": report.state,
            "reports": max(report.reports, 0),
            "joined": max(report.joined, 0),
            "metrics": metrics_of(report.metrics),
            "updateTime": report.time[:64],
        }
    }
    checkpoint = report.checkpoint or {}
    index = checkpoint.get("index")
    is_newer = isinstance(index, int) and (status.checkpoint is None or index > status.checkpoint.index)
    if is_newer and checkpoint.get("uri"):
        wanted["checkpoint"] = {
            "uri": str(checkpoint["uri"])[:2048],
            "index": index,
            "time": str(checkpoint.get("time") or report.time)[:64],
            "metrics": metrics_of(checkpoint.get("metrics")),
            "attempt": report.attempt,
        }
    if report.run_uri:
        wanted["runURI"] = report.run_uri[:2048]
    if report.resumed_from and report.resumed_from.get("uri"):
        wanted["resumedFrom"] = {"uri": str(report.resumed_from["uri"])[:2048]}
    return {key: value for key, value in wanted.items() if current.get(key) != value}


class ReportWriter:
    """One slot per job that has something to say; a newer report takes an older one's place."""

    def __init__(
        self,
        client: KubeClient,
        *,
        lookup: Callable[[JobKey], JobFacts | None],
        learn: Callable[[dict[str, Any]], None],
        period: float = PERIOD_SECONDS,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._learn = learn
        self._period = period
        self._latest: dict[JobKey, Report] = {}
        self._tasks: dict[JobKey, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(WRITES_AT_A_TIME)

    def put(self, report: Report) -> None:
        """Takes the report; never waits."""
        key = JobKey(report.namespace, report.name)
        self._latest[key] = report
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._write_until_quiet(key))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_until_quiet(self, key: JobKey) -> None:
        """Writes at once, then what has come within the period, until nothing comes."""
        try:
            while (report := self._latest.pop(key, None)) is not None:
                async with self._gate:
                    await self._write(key, report)
                await asyncio.sleep(self._period)
        finally:
            self._tasks.pop(key, None)

    async def _write(self, key: JobKey, report: Report) -> None:
        facts = self._lookup(key)
        if facts is None or facts.uid != report.uid or facts.status.is_finished:
            return  # the leader has written the driver's last word already
        fields = status_fields(report, facts.status)
        if not fields:
            return
        body: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": report.uid},
            {"op": "test", "path": "/status/attempt", "value": report.attempt},
        ]
        body += [{"op": "add", "path": f"/status/{field}", "value": value} for field, value in fields.items()]
        try:
            answer = await self._client.patch(
                TRAIN_JOB, key.name, body, type_="json", namespace=key.namespace, subresource="status"
            )
        except (Gone, Conflict, Denied) as error:
            log.info("%s/%s: a report was dropped: %s", key.namespace, key.name, error)
        except KubeError as error:
            log.warning("%s/%s: %s; the report is tried again", key.namespace, key.name, error)
            self._latest.setdefault(key, report)
        else:
            self._learn(answer)
