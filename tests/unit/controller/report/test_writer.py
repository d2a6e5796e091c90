"""The writer: the newest report per job, one write per period, and what follows a failed write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from railhead.api.job import JobKey
from railhead.controller.report.authority import JobFacts
from railhead.controller.report.writer import PERIOD_SECONDS, WRITES_AT_A_TIME, ReportWriter
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter
from tests.model.client import make_client
from tests.unit.builders import UID
from tests.unit.controller.raws import make_job
from tests.unit.controller.report.facts import make_facts, make_report

KEY = JobKey("default", "digits")
FAILED_TEST = Denied(422, "Invalid", "the server rejected our request")
NO_ANSWER = RetryAfter(0, "NoAnswer", "reset")
# From an API server that has just started.
STARTING = [Denied(403, "Forbidden", "cannot patch"), Denied(401, "Unauthorized", ""), Gone(404, "", "page not found")]
STARTED = {"attempt": 1, "state": "STARTING"}
COMPLETE = {"type": "Complete", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": 1}


class Harness:
    """A writer whose periods end when the test ends them."""

    def __init__(self) -> None:
        self.client = make_client()
        self.jobs: dict[JobKey, JobFacts] = {}
        self.add("digits", progress=STARTED)
        self.recorded: list[dict[str, Any]] = []
        self.periods: list[float] = []
        self._ring = asyncio.Event()
        self.writer = ReportWriter(
            self.client, lookup=self.jobs.get, record_job=self.recorded.append, sleep=self._sleep
        )

    async def _sleep(self, seconds: float) -> None:
        self.periods.append(seconds)
        await self._ring.wait()

    def add(self, name: str, **status: Any) -> None:
        """An existing, known job."""
        self.jobs[JobKey("default", name)] = facts = make_facts(**status)
        self.client.api.put(make_job(name=name, status={"attempt": facts.status.attempt}))

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_period(self) -> None:
        await self.settle()
        self._ring.set()
        await asyncio.sleep(0)
        self._ring = asyncio.Event()
        await self.settle()

    def fail(self, *errors: KubeError) -> None:
        """The results of the next writes."""
        self.client.faults.script["patch/status", "digits"] = list(errors)

    @property
    def written(self) -> list[int]:
        """The `reports` of each write, in order."""
        return [self.fields(request.body)["progress"]["reports"] for request in self.client.asked]

    @staticmethod
    def fields(body: list[dict[str, Any]]) -> dict[str, Any]:
        return {op["path"].removeprefix("/status/"): op["value"] for op in body if op["op"] == "add"}


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.writer.close()


async def test_a_report_is_written_at_once_as_a_compare_and_set(harness: Harness) -> None:
    checkpoint = {"uri": "/runs/c2", "index": 2, "time": "2026-01-01T00:00:00Z", "metrics": {"loss": "1"}}
    harness.writer.put(make_report(checkpoint=checkpoint, run_uri="/runs", resumed_from={"uri": "/runs/c1"}))
    await harness.settle()
    (request,) = harness.client.asked
    assert request.path.partition("?")[0] == "/apis/railhead.dev/v1alpha1/namespaces/default/trainjobs/digits/status"
    assert request.body[:2] == [
        {"op": "test", "path": "/metadata/uid", "value": UID},
        {"op": "test", "path": "/status/attempt", "value": 1},
    ]
    fields = harness.fields(request.body)
    assert fields["progress"]["reports"] == 4
    assert fields["checkpoint"] == {**checkpoint, "attempt": 1}
    assert (fields["runURI"], fields["resumedFrom"]) == ("/runs", {"uri": "/runs/c1"})
    assert fields.keys() <= {"progress", "checkpoint", "bestCheckpoint", "runURI", "resumedFrom"}, (
        "the leader's fields are not ours"
    )
    assert harness.recorded == list(harness.client.api.objects.values())
    assert harness.recorded[0]["status"].items() >= fields.items()


async def test_each_period_has_at_most_one_write_and_the_newest_wins(harness: Harness) -> None:
    for number in (1, 2):
        harness.writer.put(make_report(reports=number))
    await harness.settle()
    for number in range(3, 10):
        harness.writer.put(make_report(reports=number))
        await harness.settle()
    assert harness.written == [2]
    await harness.pass_period()
    assert harness.written == [2, 9]
    await harness.pass_period()
    await harness.pass_period()
    assert harness.written == [2, 9]
    assert set(harness.periods) == {PERIOD_SECONDS}


async def test_a_report_after_a_quiet_period_is_written_at_once(harness: Harness) -> None:
    harness.writer.put(make_report(reports=1))
    await harness.pass_period()
    harness.writer.put(make_report(reports=2))
    await harness.settle()
    assert harness.written == [1, 2]


async def test_a_report_without_changes_is_not_written(harness: Harness) -> None:
    progress = {"attempt": 1, "state": "RUNNING", "reports": 4, "joined": 2, "metrics": {}, "updateTime": "t"}
    harness.add("digits", progress=progress)
    harness.writer.put(make_report(time="t"))
    await harness.settle()
    assert harness.client.asked == []


@pytest.mark.parametrize(
    "facts",
    [None, make_facts(uid="successor"), make_facts(conditions=[COMPLETE])],
    ids=["gone", "another job of the same name", "finished"],
)
async def test_a_finished_job_is_not_written(harness: Harness, facts: JobFacts | None) -> None:
    harness.writer.put(make_report())
    harness.jobs.clear()
    harness.jobs.update({KEY: facts} if facts else {})
    await harness.settle()
    assert harness.client.asked == []


@pytest.mark.parametrize("error", [FAILED_TEST, Gone(404, "NotFound", "not found")])
async def test_a_report_of_another_attempt_is_dropped(harness: Harness, error: KubeError) -> None:
    harness.fail(error)
    harness.writer.put(make_report())
    await harness.pass_period()
    await harness.pass_period()
    assert len(harness.client.asked) == 1
    assert harness.recorded == []


@pytest.mark.parametrize("error", [NO_ANSWER, RetryAfter(429, "", ""), Conflict(409, "Conflict", ""), *STARTING])
async def test_an_unanswered_write_is_repeated_a_period_later(harness: Harness, error: KubeError) -> None:
    harness.fail(error, error)
    harness.writer.put(make_report(reports=7))
    await harness.settle()
    assert harness.written == [7]
    await harness.pass_period()
    await harness.pass_period()
    await harness.pass_period()
    assert harness.written == [7, 7, 7]
    assert len(harness.recorded) == 1


async def test_a_newer_report_replaces_one_that_waits_for_its_retry(harness: Harness) -> None:
    harness.fail(NO_ANSWER)
    harness.writer.put(make_report(reports=1))
    await asyncio.sleep(0)  # the first is in flight
    harness.writer.put(make_report(reports=2))
    await harness.pass_period()
    assert harness.written == [1, 2]


async def test_an_error_of_one_job_does_not_delay_another(harness: Harness) -> None:
    harness.add("other")
    harness.fail(*[NO_ANSWER] * 50)
    harness.writer.put(make_report())
    harness.writer.put(make_report(name="other"))
    await harness.settle()
    assert sorted(r.name for r in harness.client.asked) == ["digits", "other"]
    assert len(harness.recorded) == 1


async def test_many_jobs_are_written_a_few_at_once(harness: Harness) -> None:
    for number in range(40):
        harness.add(f"j{number}")
        harness.writer.put(make_report(name=f"j{number}"))
    for _ in range(10):
        await harness.settle()
    assert len(harness.client.asked) == 40
    assert harness.client.most_at_once == WRITES_AT_A_TIME


async def test_closing_writes_the_pending_reports(harness: Harness) -> None:
    harness.writer.put(make_report(reports=1))
    await harness.settle()
    harness.writer.put(make_report(reports=2))  # waits for the period's end
    harness.add("other")
    harness.writer.put(make_report(name="other", reports=30))  # not started
    await harness.writer.close()
    assert sorted(harness.written) == [1, 2, 30]
    await harness.writer.close()
    assert len(harness.written) == 3


async def test_closing_repeats_writes_in_flight(harness: Harness) -> None:
    """It may not have arrived; writing it twice does no harm."""
    harness.writer.put(make_report(reports=5))
    await asyncio.sleep(0)
    assert harness.client.at_once == 1
    await harness.writer.close()
    assert harness.written == [5, 5]
    assert len(harness.recorded) == 1


async def test_closing_continues_after_a_report_that_cannot_be_written(harness: Harness) -> None:
    harness.add("other")
    harness.fail(NO_ANSWER)
    harness.writer.put(make_report())
    harness.writer.put(make_report(name="other"))
    await harness.writer.close()
    assert len(harness.recorded) == 1


BROKEN = replace(make_report(), run_uri=cast(str, 7))  # the handler would reject it


async def test_a_report_that_raises_does_not_stop_later_ones_of_its_job(harness: Harness) -> None:
    harness.writer.put(BROKEN)
    await harness.settle()
    harness.writer.put(make_report(reports=8))
    await harness.pass_period()
    assert harness.written == [8]


async def test_closing_after_an_exception_writes_the_others(harness: Harness) -> None:
    harness.add("other")
    harness.writer.put(BROKEN)
    harness.writer.put(make_report(name="other", reports=8))
    await harness.writer.close()
    assert harness.written == [8]


@pytest.mark.parametrize(("attempt", "is_written"), [(1, False), (2, True)])
async def test_an_older_report_never_replaces_one_that_another_replica_wrote(
    harness: Harness, attempt: int, is_written: bool
) -> None:
    """The driver has changed its connection: the newer report is in the status already. Attempts count from zero."""
    known = {"attempt": 1, "state": "RUNNING", "reports": 9}
    harness.add("digits", progress=known, attempt=attempt)
    harness.writer.put(make_report(reports=8, attempt=attempt))
    await harness.settle()
    assert bool(harness.client.asked) is is_written
