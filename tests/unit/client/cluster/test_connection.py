"""Requests that the API server refuses, and those that it does not answer."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from railhead.client.cluster.connection import Cluster, explain_error
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter
from railhead.kube.kinds import Kind

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
