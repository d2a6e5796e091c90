"""Events: said twice, they stand once; and they are only words."""

from __future__ import annotations

import pytest

from railhead.api.job import JobKey
from railhead.controller.events import EventRecorder
from railhead.kube.errors import Conflict, Denied, KubeError, RetryAfter
from railhead.planning.plan import Event
from tests.unit.builders import UID
from tests.unit.controller.fake_client import FakeClient

KEY = JobKey("default", "digits")
LOST = Event("Warning", "Restarting", "Attempt 1 was lost")


async def record(*events: tuple[str, Event]) -> FakeClient:
    client = FakeClient()
    recorder = EventRecorder(client)
    for uid, event in events:
        await recorder.record(KEY, uid, event)
    return client


async def test_event_is_about_the_job() -> None:
    body = (await record((UID, LOST))).asked[0].body
    assert body["involvedObject"] == {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "namespace": "default",
        "name": "digits",
        "uid": UID,
    }
    assert (body["type"], body["reason"], body["message"]) == (LOST.type, LOST.reason, LOST.message)


async def test_the_same_words_have_the_same_name_and_others_another() -> None:
    other = Event("Warning", "Restarting", "Attempt 2 was lost")
    client = await record((UID, LOST), (UID, LOST), (UID, other), ("another-job", LOST))
    names = [r.name for r in client.asked]
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert all(name.startswith("digits.") for name in names)


async def test_long_words_are_cut_to_what_an_event_holds() -> None:
    body = (await record((UID, Event("Normal", "Created", "x" * 5000)))).asked[0].body
    assert len(body["message"]) == 1024


@pytest.mark.parametrize(
    ("answer", "is_logged"),
    [
        (Conflict(409, "AlreadyExists", "exists"), False),
        (Denied(403, "Forbidden", "namespace is being terminated"), True),
        (RetryAfter(0, "NoAnswer", "reset"), True),
    ],
)
async def test_an_event_that_is_not_taken_stops_nothing(
    answer: KubeError, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    name = (await record((UID, LOST))).asked[0].name
    await EventRecorder(FakeClient({("create", name): [answer]})).record(KEY, UID, LOST)
    assert ("was not posted" in caplog.text) == is_logged
