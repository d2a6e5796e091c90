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
EXISTS = Conflict(409, "AlreadyExists", "exists")
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
    "answer",
    [
        Denied(403, "Forbidden", "namespace is being terminated"),
        RetryAfter(0, "NoAnswer", "reset"),
        Conflict(409, "Conflict", "try again"),
    ],
)
async def test_an_event_that_is_not_taken_stops_nothing(answer: KubeError, caplog: pytest.LogCaptureFixture) -> None:
    name = (await record((UID, LOST))).asked[0].name
    await EventRecorder(FakeClient({("create", name): [answer]})).record(KEY, UID, LOST)
    assert "was not posted" in caplog.text


async def test_said_again_it_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    name = (await record((UID, LOST))).asked[0].name
    client = FakeClient({("create", name): [EXISTS], ("get", name): [{"count": 3}]})
    await EventRecorder(client).record(KEY, UID, LOST)
    assert [r.verb for r in client.asked] == ["create", "get", "patch"]
    patched = client.asked[-1].body
    assert (patched["count"], patched["message"]) == (4, LOST.message) and patched["lastTimestamp"]
    assert not caplog.text


async def test_of_a_series_there_is_one_with_the_newest_words() -> None:
    first, second = (Event("Normal", "CheckpointCommitted", f"Checkpoint {n}", is_series=True) for n in (1, 2))
    client = await record((UID, first), (UID, second))
    assert client.asked[0].name == client.asked[1].name
    assert client.asked[1].body["message"] == "Checkpoint 2"
