"""The first request of a command that watches, by an API server that does not answer it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from railhead.client.cluster import Cluster
from railhead.client.errors import ClientError, ExitCode
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied, KubeError, RetryAfter
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
