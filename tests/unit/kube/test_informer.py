"""The informer: list, watch, and every way in which a watch can end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from railhead.kube.bodies import keep_all
from railhead.kube.client import Item, KubeClient, Listed, Scope
from railhead.kube.errors import Denied, Gone, KubeError, RetryAfter
from railhead.kube.informer import MAX_BACKOFF_SECONDS, Informer, Tombstones, key_of, version_of
from railhead.kube.kinds import POD
from tests.model.api_server import Object
from tests.unit.kube.no_transport import NoTransport
from tests.unit.kube.watcher import make_object

EXPIRED = Gone(410, "Expired", "too old resource version")
FORBIDDEN = Denied(403, "Forbidden", "no right to list pods")
NO_ANSWER = RetryAfter(0, "NoAnswer", "connection reset")


def make_list(version: int, *objects: Object) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(objects)}


def added(name: str, version: int) -> dict[str, Any]:
    return {"type": "ADDED", "object": make_object(name, f"uid-{name}", version)}


def deleted(name: str, version: int) -> dict[str, Any]:
    return {"type": "DELETED", "object": make_object(name, f"uid-{name}", version)}


def bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


class ScriptedClient(KubeClient):
    """Lists and watches from a script: a list of events is a watch. After the last one the watch is silent."""

    def __init__(self, *script: Any) -> None:
        super().__init__(NoTransport())
        self.script = list(script)
        self.requests: list[str] = []
        self.scopes: list[Scope] = []
        self.is_silent = asyncio.Event()

    async def list_each(
        self, scope: Scope, read: Callable[[Object], Item], *, metadata_only: bool = False
    ) -> Listed[Item]:
        self.requests.append("list")
        self.scopes.append(scope)
        answer = await self._next()
        assert isinstance(answer, dict)
        return Listed(answer["metadata"]["resourceVersion"], [read(item) for item in answer["items"]])

    async def watch(self, scope: Scope, *, resource_version: str) -> AsyncIterator[dict[str, Any]]:
        self.requests.append(f"watch {resource_version}")
        self.scopes.append(scope)
        for event in await self._next():
            if isinstance(event, KubeError):
                raise event
            yield event

    async def _next(self) -> Any:
        if not self.script:
            self.is_silent.set()
            await asyncio.Event().wait()
        answer = self.script.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return answer


PODS = Scope(POD)


class Run:
    """The results of one run of an informer over a script."""

    def __init__(self, client: ScriptedClient, scope: Scope = PODS) -> None:
        self.client = client
        self.changes: list[tuple[str | None, str | None]] = []
        self.slept: list[float] = []
        self.before_sleep: Callable[[], None] = lambda: None
        self.informer = Informer(client, scope, on_change=self._note, slim=keep_all, sleep=self._sleep)

    async def until_silent(self) -> Run:
        running = asyncio.create_task(self.informer.run())
        silent = asyncio.create_task(self.client.is_silent.wait())
        await asyncio.wait({running, silent}, return_when=asyncio.FIRST_COMPLETED, timeout=5)
        for task in (running, silent):
            task.cancel()
        results = await asyncio.gather(running, silent, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError), f"run() ended: {results[0]!r}"
        return self

    @property
    def names(self) -> list[str]:
        return sorted(key_of(obj)[1] for obj in self.informer.items())

    def _note(self, old: Object | None, new: Object | None) -> None:
        def text(obj: Object | None) -> str | None:
            return f"{key_of(obj)[1]}@{version_of(obj)}" if obj else None

        self.changes.append((text(old), text(new)))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.before_sleep()
        await asyncio.sleep(0)


async def run(*script: Any) -> Run:
    return await Run(ScriptedClient(*script)).until_silent()


async def test_lists_and_then_watches_from_the_lists_version() -> None:
    result = await run(
        make_list(5, make_object("a", "uid-a", 3)),
        [added("b", 6), {"type": "MODIFIED", "object": make_object("a", "uid-a", 7)}, deleted("b", 8)],
    )
    assert result.client.requests == ["list", "watch 5", "watch 8"]
    assert result.changes == [(None, "a@3"), (None, "b@6"), ("a@3", "a@7"), ("b@6", None)]
    assert result.names == ["a"]
    assert result.slept == []


async def test_bookmarks_advance_the_version_and_change_nothing() -> None:
    result = await run(make_list(5), [bookmark(20)], [bookmark(30)])
    assert result.client.requests == ["list", "watch 5", "watch 20", "watch 30"]
    assert result.changes == []
    assert result.slept == []


async def test_a_broken_watch_resumes_from_the_last_event() -> None:
    result = await run(make_list(5), [added("a", 9), NO_ANSWER])
    assert result.client.requests == ["list", "watch 5", "watch 9"]
    assert len(result.slept) == 1


@pytest.mark.parametrize("gone", [EXPIRED, [EXPIRED]])
async def test_an_expired_version_leads_to_a_new_list_at_once(gone: Any) -> None:
    result = await run(make_list(5), gone, make_list(90, make_object("a", "uid-a", 80)))
    assert result.client.requests == ["list", "watch 5", "list", "watch 90"]
    assert result.slept == []
    assert result.names == ["a"]


async def test_a_deletion_during_a_gap_is_noticed() -> None:
    known = [make_object("a", "uid-a", 3), make_object("b", "uid-b", 4)]
    result = await run(make_list(5, *known), [EXPIRED], make_list(90, known[1]))
    assert result.names == ["b"]
    assert result.changes[-1] == ("a@3", None)


async def test_lists_that_keep_expiring_back_off() -> None:
    result = await run(*[EXPIRED] * 4, make_list(5))
    assert result.client.requests == ["list"] * 5 + ["watch 5"]
    assert len(result.slept) == 3


async def test_a_watch_that_ends_without_an_event_is_an_error() -> None:
    result = await run(make_list(5), [], [], [])
    assert result.client.requests == ["list"] + ["watch 5"] * 4
    assert len(result.slept) == 3


@pytest.mark.parametrize("error", [NO_ANSWER, FORBIDDEN])
async def test_errors_back_off_up_to_a_limit(error: KubeError) -> None:
    result = await run(*[error] * 40)
    assert all(0 < seconds <= MAX_BACKOFF_SECONDS for seconds in result.slept)
    assert result.slept[0] < 1
    assert min(result.slept[10:]) >= MAX_BACKOFF_SECONDS / 2
    assert not result.informer.is_synced


async def test_an_event_resets_the_backoff() -> None:
    result = await run(make_list(5), *[NO_ANSWER] * 10, [bookmark(6), NO_ANSWER])
    assert result.slept[9] > 1 > result.slept[10]


async def test_retry_after_is_kept() -> None:
    result = await run(RetryAfter(429, "TooManyRequests", "slow down", seconds=42))
    assert result.slept == [42]


async def test_it_is_synced_from_the_first_list_on() -> None:
    client = ScriptedClient(NO_ANSWER, make_list(5), NO_ANSWER, EXPIRED)
    result = Run(client)
    assert not result.informer.is_synced
    await result.until_silent()
    assert result.informer.is_synced
    await asyncio.wait_for(result.informer.answered.wait(), 1)


@pytest.mark.parametrize("refusal", [FORBIDDEN, Gone(404, "NotFound", "no such resource")])
async def test_a_refused_watch_is_answered_and_current_again_after_its_next_list(refusal: KubeError) -> None:
    known, young = make_object("a", "uid-a", 3), make_object("b", "uid-b", 8)
    client = ScriptedClient(make_list(5, known), refusal, refusal, make_list(9, young))
    result, seen = Run(client), list[tuple[bool, bool, list[str]]]()

    def look(names: list[str]) -> None:
        seen.append((result.informer.is_current, result.informer.state.is_refused, names))

    result.before_sleep = lambda: look(result.names)
    result.informer.state.on_return = lambda: look(result.names)
    await result.until_silent()
    assert client.requests == ["list", "watch 5", "list", "list", "watch 9"]
    assert seen[-1] == (True, False, ["b"]), "the list is applied before the jobs are planned again"
    assert all(each == (False, True, ["a"]) for each in seen[:-1]) and len(seen) >= 2


async def test_a_first_list_that_is_refused_answers_but_is_not_current() -> None:
    result = Run(ScriptedClient(*[FORBIDDEN] * 20))
    await result.until_silent()
    await asyncio.wait_for(result.informer.answered.wait(), 1)
    assert not result.informer.is_synced and not result.informer.is_current
    assert max(result.slept) <= 30


@pytest.mark.parametrize("error", [NO_ANSWER, Denied(401, "Unauthorized", "expired token"), EXPIRED])
async def test_no_other_error_answers(error: KubeError) -> None:
    result = await run(*[error] * 20)
    assert not result.informer.answered.is_set() and not result.informer.state.is_refused


async def test_a_user_whose_token_has_ended_is_told_after_some_tries() -> None:
    """As the command line watches; the operator's own token is renewed while it tries."""
    unknown = Denied(401, "Unauthorized", "Unauthorized")
    script = [make_list(5), [bookmark(6)], unknown, unknown, NO_ANSWER, unknown, [bookmark(7)], *[unknown] * 3, []]
    client, slept = ScriptedClient(*script), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    informer = Informer(client, PODS, on_change=lambda old, new: None, slim=keep_all, sleep=sleep, most_unauthorized=3)
    with pytest.raises(Denied, match="Unauthorized"):
        await informer.run()
    assert client.script == [[]], "the third answer in a row ends it"
    assert len(slept) == 6


async def test_a_refusal_is_logged_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await Run(ScriptedClient(*[FORBIDDEN] * 9, make_list(5)), Scope(POD, "team")).until_silent()
    first, last = [record.getMessage() for record in caplog.records]
    assert first.startswith("cannot watch pods in namespace team") and "no right to list pods" in first
    assert last == "watching pods in namespace team again"


@pytest.mark.parametrize(
    ("script", "deliveries"),
    [
        ([make_list(5)], 1),
        ([make_list(5, make_object("a", "uid-a", 3)), [added("b", 6), bookmark(7)]], 4),
        ([NO_ANSWER, EXPIRED, FORBIDDEN], 0),
        ([make_list(5), [], [NO_ANSWER], [EXPIRED]], 1),
    ],
)
async def test_lists_events_and_bookmarks_are_deliveries_and_errors_are_not(script: list[Any], deliveries: int) -> None:
    result, seen = Run(ScriptedClient(*script)), list[bool]()
    result.informer.state.deliver = lambda: seen.append(True)  # type: ignore[method-assign]
    await result.until_silent()
    assert len(seen) == deliveries


async def test_a_recorded_write_is_cached_before_its_watch_event() -> None:
    result = Run(ScriptedClient(make_list(5), [added("a", 6), added("b", 7)]))
    result.informer.record_write(make_object("b", "uid-b", 7))
    assert make_object("b", "uid-b", 7) in result.informer.items()
    await result.until_silent()
    assert result.changes == [(None, "b@7"), (None, "a@6")]  # once, and the older list did not drop it


async def test_list_and_watch_select_the_same_objects() -> None:
    scope = Scope(POD, "team", "a=b", "spec.nodeName=n")
    client = ScriptedClient(make_list(5), [bookmark(6)])
    await Run(client, scope).until_silent()
    assert client.scopes == [scope] * 3


def test_versions_up_to_the_deletion_are_covered_and_newer_ones_are_not() -> None:
    tombstones = Tombstones()
    tombstones.add("a", 7)
    assert [tombstones.is_deleted_since("a", version) for version in (0, 6, 7, 8)] == [True, True, True, False]


def test_an_object_that_was_never_deleted_is_not_covered() -> None:
    assert not Tombstones().is_deleted_since("a", 0)


def test_the_newest_deletion_counts_in_any_order() -> None:
    tombstones = Tombstones()
    tombstones.add("a", 9)
    tombstones.add("a", 4)
    assert tombstones.is_deleted_since("a", 9)


def test_the_oldest_are_forgotten_and_a_repeated_one_counts_as_new() -> None:
    tombstones = Tombstones(keep=2)
    for uid in ("a", "b", "a", "c"):
        tombstones.add(uid, 1)
    assert [tombstones.is_deleted_since(uid, 1) for uid in ("a", "b", "c")] == [True, False, True]
