"""Requests that the API server refuses, and those that it does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import cast

import pytest

from railhead.client.cluster.connection import Cluster, explain_error
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.contract.loss_rate import JobLosses
from railhead.json_object import Object
from railhead.kube.client import KubeClient, Listed, Scope
from railhead.kube.clock import ServerClock
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter
from railhead.kube.kinds import TRAIN_JOB, Kind
from tests.unit.client.jobs import make_job, make_running

NO_ANSWER = RetryAfter(0, "NoAnswer", "TimeoutError: ")
FORBIDDEN = Denied(403, "Forbidden", "no")


class Client:
    """Answers the first requests with these errors."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)

    async def ask_list(self, kind: Kind, namespace: str | None) -> None:
        if self.errors:
            raise self.errors.pop(0)


def open_jobs(client: Client) -> None:
    cluster = Cluster(cast(KubeClient, client), "default", "default")
    asyncio.run(cluster.open_jobs("", lambda job: job, lambda old, new: None))


class Reader:
    """Answers what a snapshot reads of one job; lists of TrainJobs have these jobs, or this error."""

    def __init__(self, jobs: list[Object] | KubeError) -> None:
        self.jobs = jobs
        self.clock = ServerClock(time.monotonic, partial(datetime.now, UTC))
        self.listed = 0

    async def get(self, kind: Kind, name: str, *, namespace: str) -> Object:
        return TRAINS

    async def list(self, scope: Scope) -> list[Object]:
        return []

    async def list_each(self, scope: Scope, read: Callable[[Object], JobLosses]) -> Listed[JobLosses]:
        assert (scope.kind, scope.namespace) == (TRAIN_JOB, "default")
        self.listed += 1
        if isinstance(self.jobs, KubeError):
            raise self.jobs
        return Listed("1", [read(job) for job in self.jobs])


def read(client: Reader) -> JobSnapshot:
    return asyncio.run(Cluster(cast(KubeClient, client), "default", None).read_snapshot("digits"))


def spend(gpu_seconds: int, losses: int) -> Object:
    return {"gpuSeconds": gpu_seconds, "interruptions": {"Hardware": losses}}


TRAINS = make_running(goodput=spend(3600, 1))


def test_a_snapshot_of_a_job_with_few_losses_has_those_of_its_namespace() -> None:
    client = Reader([TRAINS, make_job("other", goodput=spend(7200, 4))])
    snapshot = read(client)
    assert (snapshot.namespace_losses, snapshot.notes) == (JobLosses(5, 10_800), ())


def test_who_may_not_list_jobs_has_the_losses_of_the_named_one() -> None:
    snapshot = read(Reader(FORBIDDEN))
    assert (snapshot.namespace_losses, snapshot.notes) == (JobLosses(1, 3600), ())


def test_no_list_is_read_for_a_job_that_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Reader([])
    monkeypatch.setitem(globals(), "TRAINS", make_running(goodput=spend(3600, 3)))
    assert (read(client).namespace_losses, client.listed) == (JobLosses(), 0)


def test_a_watch_begins_although_one_request_got_no_answer() -> None:
    client = Client(NO_ANSWER)
    open_jobs(client)
    assert not client.errors


@pytest.mark.parametrize(
    ("errors", "code", "left"),
    [([NO_ANSWER, NO_ANSWER], ExitCode.UNREACHABLE, 0), ([FORBIDDEN, NO_ANSWER], ExitCode.DENIED, 1)],
)
def test_a_refusal_or_a_second_silence_ends_the_command(errors: list[KubeError], code: ExitCode, left: int) -> None:
    client = Client(*errors)
    with pytest.raises(ClientError) as raised:
        open_jobs(client)
    assert (raised.value.code, len(client.errors)) == (code, left)


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (Denied(401, "Unauthorized", "Unauthorized"), ExitCode.DENIED, "log in again"),
        (Denied(403, "Forbidden", "user x cannot list"), ExitCode.DENIED, "user x cannot list; ask an administrator"),
        (Gone(404, "NotFound", "trainjobs x not found"), ExitCode.NOT_FOUND, "x not found"),
        (RetryAfter(0, "NoAnswer", "refused"), ExitCode.UNREACHABLE, "no answer from the API server .refused.; try"),
        (Conflict(409, "AlreadyExists", "x exists"), ExitCode.REFUSED, "choose another name"),
        (Denied(422, "Invalid", "spec.image: field is immutable"), ExitCode.REFUSED, "spec.image: field is immutable"),
        (Denied(400, "BadRequest", 'unknown field "spec.workers"'), ExitCode.REFUSED, "did you mean spec.worker."),
        (
            Denied(422, "Invalid", "spec.run.name in body should match '^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'"),
            ExitCode.REFUSED,
            "spec.run.name must consist of letters",
        ),
    ],
)
def test_an_error_has_its_code_and_its_remedy(error: KubeError, code: ExitCode, remedy: str) -> None:
    explained = explain_error(error, "list TrainJobs")
    assert explained.code == code
    with pytest.raises(type(explained), match=f"cannot list TrainJobs: .*{remedy}"):
        raise explained
