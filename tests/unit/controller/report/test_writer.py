"""The writer: the newest report per job, one write per period, and what follows a failed write."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.api.status import parse_status
from railhead.controller.denied_status import StatusDenials
from railhead.controller.events import EventRecorder
from railhead.controller.report.authority import JobFacts
from railhead.controller.report.schedule import WRITES_AT_A_TIME, Urgency, WriteSchedule
from railhead.controller.report.writer import ReportWriter, find_urgency
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter, classify_response
from tests.model.client import make_client
from tests.slow_cases import slow_after
from tests.unit.builders import RUNNING_STATUS, UID
from tests.unit.controller.raws import make_job
from tests.unit.controller.report.facts import make_facts, make_report
from tests.unit.controller.test_keyed_queue import FakeClock

KEY = JobKey("default", "digits")
FAILED_TEST = Denied(422, "Invalid", "the server rejected our request")
NO_ANSWER = RetryAfter(0, "NoAnswer", "reset")
# From an API server that has just started.
STARTING = [Denied(403, "Forbidden", "cannot patch"), Denied(401, "Unauthorized", ""), Gone(404, "", "page not found")]
STARTED = {"attempt": 1, "state": "STARTING"}
COMPLETE = {"type": "Complete", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": 1}


class Harness:
    """A writer with a clock of its own."""

    def __init__(self, *, per_second: float = 1000.0) -> None:
        self.client = make_client()
        self.jobs: dict[JobKey, JobFacts] = {}
        self.add("digits", progress=STARTED)
        self.recorded: list[dict[str, Any]] = []
        self.clock = FakeClock(now=100.0)
        self.delays: list[tuple[Urgency, float]] = []
        self.writer = ReportWriter(
            self.client,
            WriteSchedule(per_second, self.clock.monotonic),
            lookup=self.jobs.get,
            record_job=self.record,
            call_later=self.clock.call_later,
            denials=StatusDenials(self.client, EventRecorder(self.client)),
            count_delay=lambda urgency, seconds: self.delays.append((urgency, seconds)),
        )

    def record(self, raw: dict[str, Any]) -> None:
        """As the operator's cache does."""
        self.recorded.append(copy.deepcopy(raw))
        key = JobKey("default", raw["metadata"]["name"])
        self.jobs[key] = replace(self.jobs[key], status=parse_status({**RUNNING_STATUS, **raw["status"]}))

    def add(self, name: str, **status: Any) -> None:
        """An existing, known job."""
        self.jobs[JobKey("default", name)] = facts = make_facts(**status)
        self.client.api.put(make_job(name=name, status={"attempt": facts.status.attempt}))

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_seconds(self, seconds: float) -> None:
        await self.settle()
        end = self.clock.now + seconds
        while self.clock.ring_next(until=end):
            await self.settle()

    def fail(self, *errors: KubeError) -> None:
        """The results of the next writes."""
        self.client.faults.script["patch/status", "digits"] = list(errors)

    @property
    def written(self) -> list[int]:
        """The `reports` of each write, in order."""
        writes = [request for request in self.client.asked if request.plural == "trainjobs"]
        return [self.fields(request.body)["progress"]["reports"] for request in writes]

    @property
    def events(self) -> list[str]:
        """The messages of the events about jobs."""
        return [obj["message"] for (plural, _, _), obj in self.client.api.objects.items() if plural == "events"]

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
    assert fields.keys() <= {"progress", "checkpoint", "bestCheckpoint", "runURI", "trackerURL", "resumedFrom"}, (
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
    assert harness.written == [1]
    await harness.pass_seconds(2.0)
    assert harness.written == [1, 9]
    await harness.pass_seconds(2.0)
    await harness.pass_seconds(2.0)
    assert harness.written == [1, 9]


async def test_a_report_that_arrives_before_a_write_begins_is_written_too(harness: Harness) -> None:
    """The write has been decided, and its task has not run yet."""
    for number in (1, 2):
        harness.writer.put(make_report(reports=number))
    await harness.pass_seconds(10.0)
    assert harness.written == [1, 2]
    for number in (3, 4, 5):
        harness.writer.put(make_report(reports=number))
        await harness.pass_seconds(10.0)
    assert harness.written == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", slow_after(8, range(20)))
async def test_the_newest_report_of_each_job_is_always_written(seed: int) -> None:
    """Whatever the order of reports, writes and errors."""
    rng, harness = random.Random(seed), Harness(per_second=5.0)
    newest = dict.fromkeys(("digits", "a", "b", "c"), 0)
    for name in newest:
        harness.add(name, progress=STARTED)
    for _ in range(200):
        name = rng.choice(list(newest))
        newest[name] += 1
        if rng.random() < 0.2:
            harness.client.faults.script["patch/status", name] = [NO_ANSWER]
        harness.writer.put(make_report(name=name, reports=newest[name], state=rng.choice(["RUNNING", "RESTARTING"])))
        for _ in range(rng.choice([0, 0, 1, 3])):
            await asyncio.sleep(0)
        if rng.random() < 0.3:
            await harness.pass_seconds(rng.random() * 3)
    harness.client.faults.script.clear()
    if rng.random() < 0.5:
        await harness.pass_seconds(60.0)
    await harness.writer.close()
    found = {raw["metadata"]["name"]: raw["status"]["progress"]["reports"] for raw in harness.recorded}
    assert found == newest


async def test_a_delay_is_from_the_first_report_that_was_not_written(harness: Harness) -> None:
    harness.writer.put(make_report(reports=1))
    await harness.settle()
    for number in (2, 3):
        await harness.pass_seconds(0.5)
        harness.writer.put(make_report(reports=number))
    await harness.pass_seconds(10.0)
    assert harness.written == [1, 3]
    assert harness.delays == [(Urgency.STATE, 0.0), (Urgency.PROGRESS, 1.5)]


async def test_a_delay_includes_writes_that_failed(harness: Harness) -> None:
    """Also if a newer report arrived during such a write."""
    harness.fail(NO_ANSWER, NO_ANSWER)
    harness.writer.put(make_report())
    await asyncio.sleep(0)
    harness.clock.now += 0.5
    harness.writer.put(make_report(reports=5))
    await harness.pass_seconds(10.0)
    assert harness.delays == [(Urgency.STATE, 2.0)]


async def test_a_checkpoint_has_not_waited_for_as_long_as_the_progress_before_it(harness: Harness) -> None:
    harness.writer.put(make_report(reports=1))
    await harness.pass_seconds(0.5)
    harness.writer.put(make_report(reports=2))
    await harness.pass_seconds(1.0)
    harness.writer.put(make_report(reports=3, checkpoint=COMMIT))
    await harness.pass_seconds(10.0)
    assert harness.delays == [(Urgency.STATE, 0.0), (Urgency.CHECKPOINT, 0.5)]


async def test_a_report_after_a_quiet_period_is_written_at_once(harness: Harness) -> None:
    harness.writer.put(make_report(reports=1))
    await harness.pass_seconds(2.0)
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


@pytest.mark.parametrize(("errors", "writes"), [([FAILED_TEST] * 5, 2), ([Gone(404, "NotFound", "not found")], 1)])
async def test_a_report_of_another_attempt_is_dropped(harness: Harness, errors: list[KubeError], writes: int) -> None:
    harness.fail(*errors)
    harness.writer.put(make_report())
    await harness.pass_seconds(10.0)
    assert len(harness.client.asked) == writes
    assert harness.recorded == []


async def test_a_rejection_that_passes_costs_no_report(harness: Harness) -> None:
    """Such as one by an admission policy whose parameters are missing for a moment."""
    for number in (1, 2):
        harness.fail(FAILED_TEST)
        harness.writer.put(make_report(reports=number))
        await harness.pass_seconds(10.0)
    assert [raw["status"]["progress"]["reports"] for raw in harness.recorded] == [1, 2]


@pytest.mark.parametrize("error", [NO_ANSWER, RetryAfter(429, "", ""), Conflict(409, "Conflict", ""), *STARTING])
async def test_an_unanswered_write_is_repeated_a_period_later(harness: Harness, error: KubeError) -> None:
    harness.fail(error, error)
    harness.writer.put(make_report(reports=7))
    await harness.settle()
    assert harness.written == [7]
    await harness.pass_seconds(2.0)
    await harness.pass_seconds(2.0)
    await harness.pass_seconds(2.0)
    assert harness.written == [7, 7, 7]
    assert len(harness.recorded) == 1


async def test_a_newer_report_replaces_one_that_waits_for_its_retry(harness: Harness) -> None:
    harness.fail(NO_ANSWER)
    harness.writer.put(make_report(reports=1))
    await asyncio.sleep(0)  # the first is in flight
    harness.writer.put(make_report(reports=2))
    await harness.pass_seconds(2.0)
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


async def test_a_report_that_raises_does_not_stop_later_ones_of_its_job(harness: Harness) -> None:
    broken = replace(make_report(), run_uri=cast(str, 7))  # the handler would reject it
    with pytest.raises(TypeError):
        harness.writer.put(broken)
    harness.writer.put(make_report(reports=8))
    await harness.settle()
    assert harness.written == [8]


async def test_a_write_that_raises_does_not_stop_later_ones(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """A defect of ours, after the first response."""
    harness.add("other")
    record, defects = harness.writer.record_job, [ValueError("a defect")]

    def fail_once(raw: dict[str, Any]) -> None:
        if defects:
            raise defects.pop()
        record(raw)

    harness.writer.record_job = fail_once
    harness.writer.put(make_report(reports=7))
    harness.writer.put(make_report(name="other", reports=8))
    await harness.settle()
    harness.writer.put(make_report(reports=9))
    await harness.pass_seconds(2.0)
    assert [raw["status"]["progress"]["reports"] for raw in harness.recorded] == [8, 9]
    assert "default/digits: a report was not written: ValueError: a defect" in caplog.text


COMMIT = {"uri": "/runs/c2", "index": 2, "time": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("changes", "urgency"),
    [
        ({}, None),
        ({"time": "2026-01-01T00:00:09Z"}, None),
        ({"reports": 5, "joined": 3, "metrics": {"loss": "2"}}, Urgency.PROGRESS),
        ({"reports": 5, "checkpoint": COMMIT}, Urgency.CHECKPOINT),
        ({"best_checkpoint": {**COMMIT, "attempt": 1}}, Urgency.CHECKPOINT),
        ({"run_uri": "/runs"}, Urgency.CHECKPOINT),
        ({"tracker_url": "https://t/runs/1"}, Urgency.CHECKPOINT),
        ({"state": "RESTARTING", "checkpoint": COMMIT}, Urgency.STATE),
        ({"workers": 7}, Urgency.STATE),
        ({"lost_pods": ["w0"]}, Urgency.STATE),
        ({"warning": {"reason": "StorageUnreachable", "message": "m"}}, Urgency.STATE),
        ({"restart": {"number": 1, "charged": 1}}, Urgency.STATE),
        ({"outcome": {"outcome": "Application"}}, Urgency.STATE),
    ],
)
def test_the_urgency_follows_from_what_changes(changes: dict[str, Any], urgency: Urgency | None) -> None:
    known = make_facts(progress={"attempt": 1, "state": "RUNNING", "reports": 4, "joined": 2, "metrics": {}}).status
    assert find_urgency(make_report(**changes), known) is urgency


async def test_a_state_that_changes_back_during_a_write_ends_up_in_the_status(harness: Harness) -> None:
    harness.writer.put(make_report(state="RUNNING"))
    await harness.pass_seconds(2.0)
    harness.writer.put(make_report(state="RESTARTING"))
    await asyncio.sleep(0)
    assert harness.client.at_once == 1
    harness.writer.put(make_report(state="RUNNING"))
    await harness.pass_seconds(2.0)
    assert [raw["status"]["progress"]["state"] for raw in harness.recorded] == ["RUNNING", "RESTARTING", "RUNNING"]


@pytest.mark.parametrize("jobs", [60, pytest.param(200, marks=pytest.mark.slow)])
async def test_many_jobs_stay_within_the_budget_and_their_checkpoints_come_first(jobs: int) -> None:
    """Each job reports twice a second, and commits once in 30 s; each may write once in 8 s."""
    budget = jobs / 8
    harness, lags = Harness(per_second=budget), list[float]()
    committed: dict[tuple[str, int], float] = {}

    def record(raw: dict[str, Any]) -> None:
        harness.record(raw)
        found = raw["status"].get("checkpoint") or {}
        if since := committed.pop((raw["metadata"]["name"], found.get("index", -1)), None):
            lags.append(harness.clock.now - since)

    harness.writer.record_job = record
    names = [f"j{number}" for number in range(jobs)]
    for name in names:
        harness.add(name, progress={"attempt": 1, "state": "RUNNING", "reports": 0, "joined": 2})
    seconds, next_seconds, commits = 30, 0.0, dict[str, dict[str, Any]]()
    for half in range(2 * seconds):
        for number, name in enumerate(names):
            if (half + number) % 60 == 0:
                commits[name] = {**COMMIT, "index": half}
                committed[name, half] = harness.clock.now
            next_seconds = harness.writer.put(make_report(name=name, reports=half, checkpoint=commits.get(name)))
        await harness.pass_seconds(0.5)
    assert len(harness.client.asked) <= budget * seconds + 5
    assert len(lags) >= 0.97 * jobs
    assert sorted(lags)[int(0.99 * len(lags))] <= 2.0
    assert {raw["metadata"]["name"] for raw in harness.recorded[-int(budget * 10) :]} == set(names), (
        "each within ten seconds"
    )
    assert next_seconds == 8.0
    await harness.writer.close()


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


@pytest.mark.parametrize("status", [403, 409, 422, 500])
async def test_a_report_that_a_webhook_denies_is_an_event(harness: Harness, status: int) -> None:
    """No pass writes anything while a job trains, so nothing else would tell."""
    words = 'admission webhook "guard.example.com" denied the request: no changes today'
    body = json.dumps({"kind": "Status", "code": status, "message": words}).encode()
    harness.fail(classify_response(status, body), classify_response(status, body))
    harness.writer.put(make_report(reports=7))
    await harness.pass_seconds(5.0)
    [message] = harness.events
    assert words in message
    assert [raw["status"]["progress"]["reports"] for raw in harness.recorded] == [7], "it is written in the end"


async def test_a_report_of_an_attempt_that_is_over_is_no_event(harness: Harness) -> None:
    harness.fail(FAILED_TEST, FAILED_TEST)
    harness.writer.put(make_report(reports=7))
    await harness.pass_seconds(5.0)
    assert not harness.events and not harness.recorded
