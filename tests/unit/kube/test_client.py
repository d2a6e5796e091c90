"""The client over real HTTP: its requests, and how it handles good, bad and broken responses."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from operator import itemgetter
from typing import Any

import pytest
from aiohttp import web

from railhead.kube import pages
from railhead.kube.client import METADATA_ONLY, KubeClient, Listed, Scope
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter
from railhead.kube.kinds import NODE, POD, TRAIN_JOB
from railhead.kube.transport import MOST_CONNECTIONS, open_pools
from tests.unit.kube.api_stub import ApiStub, make_api, serve_stub

OBJECT = {"kind": "Pod", "metadata": {"name": "p"}}
PODS = "/api/v1/namespaces/ns/pods"
JOBS = "/apis/railhead.dev/v1alpha1/namespaces/ns/trainjobs"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def pair() -> AsyncIterator[tuple[ApiStub, KubeClient]]:
    async with serve_stub() as both:
        yield both


@pytest.fixture
def stub(pair: tuple[ApiStub, KubeClient]) -> ApiStub:
    return pair[0]


@pytest.fixture
def client(pair: tuple[ApiStub, KubeClient]) -> KubeClient:
    return pair[1]


async def watch_all(client: KubeClient) -> list[dict[str, Any]]:
    return [event async for event in client.watch(Scope(POD, "ns", "a=b"), resource_version="5")]


def make_event(version: int, *, size: int = 0) -> dict[str, Any]:
    metadata = {"name": "p", "resourceVersion": str(version), "annotations": {"long": "x" * size}}
    return {"type": "MODIFIED", "object": {"metadata": metadata}}


def to_line(event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


async def test_a_page_with_too_many_bytes_is_asked_for_again_with_half_as_many_objects(
    stub: ApiStub, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rest is not read; a single object is, however large."""
    monkeypatch.setattr(pages, "PAGE_BYTES", 10_000)
    large = {"n": 1, "value": "x" * 20_000}
    for _ in range(6):  # 100, 50, 25, 12, 6, 3 objects
        stub.answer({"metadata": {"resourceVersion": "9", "continue": "2"}, "items": [large]})
    stub.answer({"metadata": {"resourceVersion": "9", "continue": "2"}, "items": [large]})
    stub.answer({"metadata": {"resourceVersion": "9"}, "items": [{"n": 2}]})
    assert await client.list_each(Scope(POD), itemgetter("n")) == Listed("9", [1, 2])
    asked = [(a.query["limit"], a.query.get("continue")) for a in stub.requests]
    assert asked == [*((limit, None) for limit in ("100", "50", "25", "12", "6", "3", "1")), ("1", "2")]


async def test_each_verb_requests_its_path(stub: ApiStub, client: KubeClient) -> None:
    stub.answer(OBJECT)
    await client.get(POD, "p", namespace="ns")
    await client.get(NODE, "n")
    await client.create(POD, OBJECT, namespace="ns")
    await client.create(POD, OBJECT, namespace="ns", is_strict=True)
    await client.create(POD, OBJECT, namespace="ns", name="p", subresource="binding")
    await client.patch(TRAIN_JOB, "j", [], namespace="ns", subresource="status", field_manager="me")
    await client.patch(POD, "p", OBJECT, namespace="ns")
    await client.delete(POD, "p", namespace="ns")
    assert [(a.method, a.path, a.query) for a in stub.requests] == [
        ("GET", f"{PODS}/p", {}),
        ("GET", "/api/v1/nodes/n", {}),
        ("POST", PODS, {}),
        ("POST", PODS, {"fieldValidation": "Strict"}),
        ("POST", f"{PODS}/p/binding", {}),
        ("PATCH", f"{JOBS}/j/status", {"fieldManager": "me"}),
        ("PATCH", f"{PODS}/p", {}),
        ("DELETE", f"{PODS}/p", {}),
    ]
    assert json.loads(stub.requests[2].body) == OBJECT


async def test_a_warning_of_the_api_server_is_logged_once(
    stub: ApiStub, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    stub.answer(OBJECT, headers={"Warning": '299 - "spec.nodeSelector[a]: deprecated since v1.14"'})
    for _ in range(3):
        await client.create(POD, OBJECT, namespace="ns")
    await client.get(POD, "p", namespace="ns")
    assert [record.message for record in caplog.records] == [
        f'the API server warns about {verb} pods: 299 - "spec.nodeSelector[a]: deprecated since v1.14"'
        for verb in ("create", "get")
    ]


@pytest.mark.parametrize(
    ("is_strategic", "body", "content_type"),
    [
        (False, [{"op": "test", "path": "/a", "value": 1}], "application/json-patch+json"),
        (False, {"data": {"a": "1"}}, "application/merge-patch+json"),
        (True, {"data": {"a": "1"}}, "application/strategic-merge-patch+json"),
    ],
)
async def test_a_patch_has_the_content_type_of_its_kind(
    stub: ApiStub, client: KubeClient, is_strategic: bool, body: Any, content_type: str
) -> None:
    stub.answer(OBJECT)
    assert await client.patch(POD, "p", body, is_strategic=is_strategic, namespace="ns", is_strict=True) == OBJECT
    assert stub.requests[0].query["fieldValidation"] == "Strict"
    assert stub.requests[0].headers["Content-Type"] == content_type
    assert json.loads(stub.requests[0].body) == body


async def test_a_delete_has_the_uid_and_the_grace_period(stub: ApiStub, client: KubeClient) -> None:
    stub.answer(OBJECT)
    await client.delete(POD, "p", namespace="ns", uid="u-1", grace_seconds=0)
    await client.delete(POD, "p", namespace="ns")
    exact, any_ = (json.loads(a.body) for a in stub.requests)
    assert exact["preconditions"] == {"uid": "u-1"}
    assert exact["gracePeriodSeconds"] == 0
    assert not {"preconditions", "gracePeriodSeconds"} & any_.keys()


async def test_the_pages_of_a_list_become_one_list_at_the_first_pages_version(
    stub: ApiStub, client: KubeClient
) -> None:
    token = "a+b/c=&d"
    stub.answer({"metadata": {"resourceVersion": "9", "continue": token}, "items": [{"n": 1}]})
    stub.answer({"metadata": {"resourceVersion": "9", "continue": "2"}, "items": None})
    stub.answer({"metadata": {"resourceVersion": "12"}, "items": [{"n": 2}]})
    selector = "railhead.dev/role in (head,worker)"
    listed = await client.list_each(
        Scope(POD, label_selector=selector, field_selector="spec.nodeName=n"), itemgetter("n"), metadata_only=True
    )
    assert listed == Listed("9", [1, 2])
    query = {"labelSelector": selector, "fieldSelector": "spec.nodeName=n", "limit": "100"}
    assert [a.query for a in stub.requests] == [query, {**query, "continue": token}, {**query, "continue": "2"}]
    assert {(a.path, a.headers["Accept"]) for a in stub.requests} == {("/api/v1/pods", METADATA_ONLY)}


@pytest.mark.parametrize(
    ("status", "outcome"), [(404, Gone), (409, Conflict), (403, Denied), (422, Denied), (500, RetryAfter)]
)
async def test_a_rejection_is_raised_with_the_servers_message(
    stub: ApiStub, client: KubeClient, status: int, outcome: type[KubeError]
) -> None:
    stub.answer({"kind": "Status", "reason": "Because", "message": "of this"}, status=status)
    with pytest.raises(outcome) as caught:
        await client.get(POD, "p", namespace="ns")
    assert (caught.value.status, caught.value.reason, caught.value.message) == (status, "Because", "of this")


async def test_retry_after_is_kept(stub: ApiStub, client: KubeClient) -> None:
    stub.answer(b"slow down", status=429, headers={"Retry-After": "3"})
    for call in (client.get(POD, "p"), watch_all(client)):
        with pytest.raises(RetryAfter) as caught:
            await call
        assert (caught.value.seconds, caught.value.message) == (3.0, "slow down")


@pytest.mark.parametrize("body", [b"", b"<html>log in</html>", b"[]", b"null", b'"text"', b'{"kind":', b"\xff"])
async def test_a_successful_response_that_is_no_object_counts_as_none(
    stub: ApiStub, client: KubeClient, body: bytes
) -> None:
    stub.answer(body)
    with pytest.raises(RetryAfter) as caught:
        await client.get(POD, "p", namespace="ns")
    assert caught.value.reason == "NotAnObject"


async def test_a_truncated_body_counts_as_no_response(stub: ApiStub, client: KubeClient) -> None:
    stub.stream(b'{"kind": "Pod",', is_cut=True)
    with pytest.raises(RetryAfter) as caught:
        await client.get(POD, "p", namespace="ns")
    assert (caught.value.status, caught.value.reason) == (0, "NoAnswer")


async def test_an_unreachable_server_counts_as_no_response() -> None:
    with socket.socket() as unused:  # bound, but not listening
        unused.bind(("127.0.0.1", 0))
        async with make_api(f"http://127.0.0.1:{unused.getsockname()[1]}") as api, open_pools(api) as transport:
            client = KubeClient(transport)
            for call in (client.get(POD, "p"), watch_all(client), client.get_object("/version")):
                with pytest.raises(RetryAfter) as caught:
                    await call
                assert (caught.value.status, caught.value.reason) == (0, "NoAnswer")


async def test_watches_of_many_namespaces_hold_up_no_request(stub: ApiStub, client: KubeClient) -> None:
    """Each watched namespace has a watch, which holds its connection for minutes."""
    watches = MOST_CONNECTIONS + 1
    end = asyncio.Event()

    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(to_line(make_event(6)))
        await end.wait()
        return response

    stub.answers += [respond] * watches
    stub.answer(make_event(7)["object"])
    scopes = [Scope(POD, f"ns-{number}") for number in range(watches)]
    opened = [aiter(client.watch(scope, resource_version="5")) for scope in scopes]
    try:
        async with asyncio.timeout(10):
            for watch in opened:
                assert await anext(watch) == make_event(6)
            assert await client.get(POD, "p", namespace="ns") == make_event(7)["object"]
    finally:
        end.set()


async def test_a_watch_starts_at_its_version_and_requests_bookmarks(stub: ApiStub, client: KubeClient) -> None:
    stub.stream(to_line(make_event(6)))
    assert await watch_all(client) == [make_event(6)]
    assert stub.requests[0].path == PODS
    expected = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "5", "labelSelector": "a=b"}
    assert stub.requests[0].query.items() >= expected.items()


async def test_events_are_complete_however_the_bytes_arrive(stub: ApiStub, client: KubeClient) -> None:
    events = [make_event(version) for version in range(6, 9)]
    data = b"\n".join(map(to_line, events))  # with empty lines in between
    stub.stream(*(data[i : i + 7] for i in range(0, len(data), 7)))
    assert await watch_all(client) == events


async def test_an_event_longer_than_the_readers_buffer_is_complete(stub: ApiStub, client: KubeClient) -> None:
    events = [make_event(6, size=5 * 2**20), make_event(7)]
    stub.stream(*map(to_line, events))
    assert await watch_all(client) == events


@pytest.mark.parametrize(("code", "outcome"), [(410, Gone), (500, RetryAfter), (429, RetryAfter), (None, RetryAfter)])
async def test_an_error_event_is_raised_after_the_events_before_it(
    stub: ApiStub, client: KubeClient, code: int | None, outcome: type[KubeError]
) -> None:
    status = {"kind": "Status", "code": code, "reason": "Expired", "message": "too old"}
    stub.stream(to_line(make_event(6)), to_line({"type": "ERROR", "object": status}), to_line(make_event(7)))
    seen = []
    with pytest.raises(outcome, match="Expired: too old"):
        async for event in client.watch(Scope(POD), resource_version="5"):
            seen.append(event)
    assert seen == [make_event(6)]


async def test_a_watch_from_an_expired_version_raises_gone(stub: ApiStub, client: KubeClient) -> None:
    stub.answer({"reason": "Expired", "message": "too old"}, status=410)
    with pytest.raises(Gone):
        await watch_all(client)


async def test_a_broken_watch_is_raised_after_the_events_before(stub: ApiStub, client: KubeClient) -> None:
    stub.stream(to_line(make_event(6)), b'{"type": "ADDED", "obj', is_cut=True)
    seen = []
    with pytest.raises(RetryAfter):
        async for event in client.watch(Scope(POD), resource_version="5"):
            seen.append(event)
    assert seen == [make_event(6)]


@pytest.mark.parametrize(
    "line", [b"<html>", b"[]", b"null", b"{}", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": {}}', b"\xff"]
)
async def test_a_line_that_is_no_event_breaks_the_watch(stub: ApiStub, client: KubeClient, line: bytes) -> None:
    stub.stream(line + b"\n")
    with pytest.raises(RetryAfter) as caught:
        await watch_all(client)
    assert caught.value.reason == "WatchBroken"


async def test_responses_are_counted_by_verb_resource_and_code(stub: ApiStub, client: KubeClient) -> None:
    stub.answer(OBJECT)
    await client.get(POD, "p")
    await client.get(POD, "q")
    await client.patch(TRAIN_JOB, "j", [], subresource="status")
    assert client.answers == {("get", "pods", 200): 2, ("patch/status", "trainjobs", 200): 1}


async def test_any_path_returns_its_object_or_raises(stub: ApiStub, client: KubeClient) -> None:
    stub.answer({"major": "1"})
    stub.answer(b"not yet", status=503)
    assert await client.get_object("/version") == {"major": "1"}
    with pytest.raises(RetryAfter, match="not yet"):
        await client.get_object("/version")
