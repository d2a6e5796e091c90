"""Writes reports into the status: the newest per job, within a budget for all jobs.

Touches only the endpoint's own fields, and tests uid and attempt in the same patch, so that a
late report never ends up in another attempt or in another job of the same name.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from railhead.api.parsed_spec import JobKey
from railhead.api.status import JobStatus, ProgressStatus, replace_progress
from railhead.contract.callbacks import ignore
from railhead.contract.report import Report
from railhead.controller.denied_status import StatusDenials
from railhead.controller.keyed_queue import CallLater, Timer
from railhead.controller.report.authority import JobFacts
from railhead.controller.report.schedule import WRITES_AT_A_TIME, Urgency, WriteSchedule
from railhead.json_object import Object
from railhead.kube.bodies import build_patch
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied, Gone, KubeError, is_of_admission
from railhead.kube.kinds import TRAIN_JOB
from railhead.planning.facts.reported_progress import change_by_report, without_measures
from railhead.planning.wanted_status import compute_changed_fields

log = logging.getLogger(__name__)
FIELD_MANAGER = "railhead-reports"  # `kubectl get --show-managed-fields` tells these fields from the leader's
CLOSE_SECONDS = 3.0


def status_fields(report: Report, status: JobStatus, *, nodes: Mapping[str, str] = {}) -> Object:
    """Returns the status fields that this report changes, as JSON; None removes a field. `nodes`: of pods, by name.
    Pure."""
    return compute_changed_fields(status, change_by_report(report, status, nodes=nodes))


def find_urgency(report: Report, status: JobStatus, *, nodes: Mapping[str, str] = {}) -> Urgency | None:
    """Returns how soon the report has to be written; None when it changes nothing. Pure."""
    new = change_by_report(report, status, nodes=nodes)
    fields = compute_changed_fields(status, new)
    if not fields:
        return None
    if _without_numbers(new.progress) != _without_numbers(status.progress):
        return Urgency.STATE
    if fields.keys() == {"progress"}:
        return Urgency.PROGRESS
    return Urgency.CHECKPOINT


def _without_numbers(progress: ProgressStatus) -> ProgressStatus:
    return replace_progress(
        without_measures(progress),
        reports=0,
        joined=0,
        metrics={},
        step=None,
        total_steps=None,
        steps_per_second=None,
        tokens_per_second=None,
    )


def is_outrun(report: Report, status: JobStatus) -> bool:
    """Returns whether the status holds a later report of this attempt. Each report holds the complete state. Pure."""
    known = status.progress
    return known.attempt == report.attempt and report.reports < known.reports


def is_obsolete(error: KubeError) -> bool:
    """Returns whether the job is gone, or in another attempt (a failed test is `Denied`). Pure.

    An API server that has just started knows neither our rights nor the CRD for a moment: it answers 401, 403, or a
    404 that is not about the job. A webhook that denies the write may answer with any code.
    """
    if is_of_admission(error.message):
        return False
    if isinstance(error, Gone):
        return error.reason == "NotFound"
    return isinstance(error, Denied) and error.status not in (401, 403)


class PendingReport(NamedTuple):
    """A job's newest report, and the most urgent of what it and those before it change, with its arrival."""

    report: Report
    urgency: Urgency
    since: float


@dataclass
class ReportWriter:
    """Writes the newest report of each job, in the order of `schedule.py`."""

    client: KubeClient
    schedule: WriteSchedule
    lookup: Callable[[JobKey], JobFacts | None]
    record_job: Callable[[Object], None]
    call_later: CallLater
    denials: StatusDenials
    count_delay: Callable[[Urgency, float], None] = ignore  # how long each report waited

    def __post_init__(self) -> None:
        self._latest: dict[JobKey, PendingReport] = {}  # of exactly the jobs that the schedule has
        self._in_flight: dict[JobKey, PendingReport] = {}
        self._refused: set[JobKey] = set()  # a failed test and an admission that fails once look the same: try again
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._is_closed = False

    def put(self, report: Report) -> float:
        """Accepts the report; never blocks. Returns the seconds until the next one of plain progress is of use."""
        key = JobKey(report.namespace, report.name)
        self._request_write(key, report, since=self.schedule.monotonic())
        self._write_due()
        return self.schedule.note_report(key)

    async def close(self) -> None:
        """Writes the reports accepted but not yet written, the most urgent first: the driver will not send them
        again."""
        self._is_closed = True
        self._write_due()
        order = self.schedule.drain()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The newer one of each job wins.
        reports = {**self._in_flight, **self._latest}
        left = iter([key for key in order if key in reports])

        async def work() -> None:
            for key in left:
                await self._write_safely(key, reports[key])

        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(work() for _ in range(WRITES_AT_A_TIME)))
        except TimeoutError:
            log.warning("reports of %d jobs were not written in time", len(list(left)) + WRITES_AT_A_TIME)

    def _request_write(
        self, key: JobKey, report: Report, *, since: float, unwritten: PendingReport | None = None
    ) -> None:
        """Schedules a write, if the report says anything new. `since`: when the report arrived; `unwritten`: what a
        write that failed would have written."""
        facts = self._find_facts(key, report)
        urgency = None
        if facts:
            urgency = find_urgency(report, facts.status, nodes=facts.list_nodes(report))
        if urgency is None and self.schedule.is_busy(key):
            # What is being written may be older than the report.
            urgency = Urgency.PROGRESS
        if urgency is None:
            return
        urgency = self.schedule.request_write(key, urgency)
        known = unwritten or self._latest.get(key)
        if known is not None and known.urgency <= urgency:
            self._latest[key] = known._replace(report=report)
        else:
            self._latest[key] = PendingReport(report, urgency, since)

    def _find_facts(self, key: JobKey, report: Report) -> JobFacts | None:
        """Returns the job, unless the report is not for its status."""
        facts = self.lookup(key)
        if facts is None or facts.uid != report.uid or facts.status.is_finished:
            # The leader has already written the driver's outcome.
            return None
        if is_outrun(report, facts.status):
            # The driver has switched to another replica, which was faster.
            return None
        return facts

    def _write_due(self) -> None:
        """Begins the writes that may begin now, and comes back for the next one."""
        if self._timer is not None:
            self._timer.cancel()
        if self._is_closed:
            return
        while isinstance(taken := self.schedule.take(), JobKey):
            self._in_flight[taken] = self._latest.pop(taken)
            task = asyncio.create_task(self._write_next(taken))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if taken == math.inf:
            self._timer = None
        else:
            self._timer = self.call_later(taken, self._write_due)

    async def _write_next(self, key: JobKey) -> None:
        await self._write_safely(key, self._in_flight[key])
        # Not if it was cancelled: see `close`.
        del self._in_flight[key]
        self.schedule.done(key)
        self._write_due()

    async def _write_safely(self, key: JobKey, waiting: PendingReport) -> None:
        try:
            await self._write(key, waiting)
        except Exception as error:
            # One job's error must not affect the others.
            log.error("%s/%s: a report was not written: %s: %s", key.namespace, key.name, type(error).__name__, error)

    async def _write(self, key: JobKey, waiting: PendingReport) -> None:
        report = waiting.report
        facts = self._find_facts(key, report)
        if facts:
            fields = status_fields(report, facts.status, nodes=facts.list_nodes(report))
        else:
            fields = {}
        if not fields:
            return
        tests: dict[str, object] = {"/metadata/uid": report.uid, "/status/attempt": report.attempt}
        if facts is not None and facts.status.run is not None:
            # A restore may have replaced the status meanwhile.
            tests["/status/run/uid"] = facts.status.run.uid
        body = build_patch(tests, fields, under="/status")
        try:
            answer = await self.client.patch(
                TRAIN_JOB,
                key.name,
                body,
                namespace=key.namespace,
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except KubeError as error:
            is_first = key not in self._refused
            self._refused.discard(key)
            if is_obsolete(error) and not (is_first and isinstance(error, Denied)):
                log.info("%s/%s: dropped a report: %s", key.namespace, key.name, error)
                return
            log.warning("%s/%s: %s; retrying the report", key.namespace, key.name, error)
            self.schedule.fail(key)
            newest = self._latest.get(key, waiting)
            self._request_write(key, newest.report, since=newest.since, unwritten=waiting)
            if isinstance(error, Denied) and key in self._latest:
                self._refused.add(key)
            if not is_obsolete(error):
                await self.denials.note(key, report.uid, error)
        else:
            self._refused.discard(key)
            self.denials.forget(key, report.uid)
            self.record_job(answer)
            self.count_delay(waiting.urgency, self.schedule.monotonic() - waiting.since)
