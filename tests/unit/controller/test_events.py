"""Events: repeats are counted, and a failure to write one stops nothing."""

from __future__ import annotations

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.controller.events import EventRecorder
from railhead.kube.errors import Conflict, Denied, KubeError, RetryAfter
from railhead.planning.plan import Event
from tests.model.client import ModelClient, make_client
from tests.unit.builders import UID

KEY = JobKey("default", "digits")
LOST = Event("Warning", "Restarting", "Attempt 1 was lost")


async def record(*events: tuple[str, Event]) -> ModelClient:
    client = make_client()
    recorder = EventRecorder(client)
    for uid, event in events:
        await recorder.record(KEY, uid, event)
    return client


async def test_an_event_refers_to_the_job() -> None:
    body = (await record((UID, LOST))).asked[0].body
    assert body["involvedObject"] == {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "namespace": "default",
        "name": "digits",
        "uid": UID,
    }
    assert (body["type"], body["reason"], body["message"]) == (LOST.type, LOST.reason, LOST.message)


async def test_the_name_depends_on_the_message() -> None:
    other = Event("Warning", "Restarting", "Attempt 2 was lost")
    client = await record((UID, LOST), (UID, LOST), (UID, other), ("another-job", LOST))
    names = client.names("create")
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert all(name.startswith("digits.") for name in names)


async def test_a_long_message_is_cut_to_the_limit_of_an_event() -> None:
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
async def test_a_rejected_event_stops_nothing(answer: KubeError, caplog: pytest.LogCaptureFixture) -> None:
    name = (await record((UID, LOST))).asked[0].name
    client = make_client()
    client.faults.script["create", name] = [answer]
    await EventRecorder(client).record(KEY, UID, LOST)
    assert "was not posted" in caplog.text


async def test_a_repeated_event_increments_its_count(caplog: pytest.LogCaptureFixture) -> None:
    client = await record(*[(UID, LOST)] * 4)
    assert [r.verb for r in client.asked[-3:]] == ["create", "get", "patch"]
    [event] = client.api.objects.values()
    assert (event["count"], event["message"]) == (4, LOST.message) and event["lastTimestamp"]
    assert not caplog.text


async def test_a_series_is_one_event_with_the_newest_message() -> None:
    first, second = (Event("Normal", "CheckpointCommitted", f"Checkpoint {n}", is_series=True) for n in (1, 2))
    client = await record((UID, first), (UID, second))
    [event] = client.api.objects.values()
    assert event["message"] == "Checkpoint 2"
