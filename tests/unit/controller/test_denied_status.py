"""A denied change of a job's status is an event, whatever the answer's code; an API server in trouble is not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.controller.denied_status import StatusDenials
from railhead.controller.events import EventRecorder
from railhead.kube.errors import Denied, KubeError, RetryAfter
from tests.model.api_server import ModelApiServer
from tests.model.client import ModelClient
from tests.model.faults import NOON

KEY = JobKey("default", "digits")
DENIED = Denied(403, "Forbidden", 'admission webhook "guard.example.com" denied the request: ' + 2000 * "no")


class Server:
    """An API server with the job, whose clock a test moves."""

    def __init__(self) -> None:
        self.now = NOON
        self.api = ModelApiServer(lambda: self.now)
        self.api.put({"kind": "TrainJob", "metadata": {"namespace": KEY.namespace, "name": KEY.name}, "spec": {}})
        client = ModelClient(self.api)
        self.denials = StatusDenials(client, EventRecorder(client))

    async def deny(self, error: KubeError, *, after: float = 0.0) -> None:
        self.now += timedelta(seconds=after)
        await self.denials.note(KEY, "uid", error)

    @property
    def messages(self) -> list[str]:
        return [obj["message"] for (plural, _, _), obj in self.api.objects.items() if plural == "events"]


async def test_long_words_fit_into_the_event() -> None:
    server = Server()
    await server.deny(DENIED)
    [message] = server.messages
    assert 'webhook "guard.example.com" denied the request' in message and len(message) <= 1024


@pytest.mark.parametrize(
    ("code", "seconds", "is_told"), [(503, 29, False), (503, 30, True), (500, 31, True), (0, 3600, False)]
)
async def test_an_error_without_words_of_admission_is_an_event_when_it_has_lasted(
    code: int, seconds: float, is_told: bool
) -> None:
    """While the API server answers otherwise."""
    server, error = Server(), RetryAfter(code, "", "upstream policy engine: no decision")
    await server.deny(error)
    await server.deny(error, after=seconds)
    assert bool(server.messages) == is_told


async def test_errors_with_a_success_between_them_last_for_no_time() -> None:
    server, error = Server(), RetryAfter(503, "", "upstream policy engine: no decision")
    await server.deny(error)
    server.denials.forget(KEY, "uid")
    await server.deny(error, after=40)
    assert not server.messages
