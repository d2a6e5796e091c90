"""The real kopf against a server whose lists expire and whose watches fall silent: no job is forgotten."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import kopf
import pytest
from kopf._cogs.clients import fetching, watching

from railhead.api.parsed_spec import InvalidSpec, JobKey
from railhead.controller import handlers
from railhead.controller.app import change_process
from railhead.controller.cluster_state import ClusterState
from railhead.controller.handlers import WatchLimits, build_settings, watch_jobs
from railhead.controller.job_pages import fetch_pages
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.store import Store
from railhead.kube import pages
from railhead.kube.client import connect
from railhead.kube.informer import WatchState
from railhead.kube.kinds import TRAIN_JOB
from tests.model.api_server import JOBS
from tests.model.client import make_client
from tests.unit.builders import SPEC
from tests.unit.controller.job_server import EXPIRED, JobServer, ListOrWatch, make_error, serve_jobs

LIMITS = WatchLimits(page_size=2, relist_pause_seconds=0.0, retry_seconds=(0.01,))
NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JobServer]:
    async with serve_jobs(tmp_path) as (jobs, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.setattr("railhead.controller.handlers.LONGEST_PAUSE_SECONDS", 0.05)
        jobs.add(*NAMES)
        yield jobs


class Operator:
    """The jobs that the operator knows from its watch."""

    def __init__(self) -> None:
        self.store = Store()
        queue: KeyedQueue[JobKey] = KeyedQueue(asyncio.get_running_loop().call_later)
        self.state = ClusterState(make_client(), self.store, queue)
        self.signals = 0
        self.watches: list[WatchState] = []

    @property
    def known(self) -> list[str]:
        return sorted(record.key.name for record in self.store.all_records())

    async def watch(self, *namespaces: str, limits: WatchLimits = LIMITS) -> None:
        self.watches = [WatchState(TRAIN_JOB, namespace) for namespace in namespaces or (None,)]
        async with connect(os.environ["KUBECONFIG"]) as client:
            ask = partial(client.ask_list, TRAIN_JOB)
            await watch_jobs(self.state.on_job, self.watches, ask=ask, on_signal=self.note_signal, limits=limits)

    @property
    def refused(self) -> list[str | None]:
        """Namespaces."""
        return [watch.namespace for watch in self.watches if watch.is_refused]

    def note_signal(self) -> None:
        self.signals += 1

    @asynccontextmanager
    async def watching(self, *namespaces: str, limits: WatchLimits = LIMITS) -> AsyncIterator[asyncio.Task[None]]:
        """The task of the watch; it must still run at the end, and is cancelled then."""
        task = asyncio.create_task(self.watch(*namespaces, limits=limits))
        try:
            yield task
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object], task: asyncio.Task[None]) -> None:
    """Waits for the condition; raises the error of the watch."""
    async with asyncio.timeout(30):
        while not condition():
            if task.done():
                task.result()
            await asyncio.sleep(0.01)


def kopf_tasks() -> list[str]:
    """Names of the tasks that run kopf's code."""
    folder = str(Path(kopf.__file__).parent)
    codes = {task.get_name(): getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()}
    return [name for name, code in codes.items() if code is not None and code.co_filename.startswith(folder)]


async def test_the_jobs_are_listed_in_pages_and_then_watched(server: JobServer) -> None:
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: operator.known == NAMES and server.watches, task)
    assert [(call.query["limit"], call.after) for call in server.lists] == [("2", ""), ("2", "b"), ("2", "d")]
    expected = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "105"}
    assert server.watches[0].query.items() >= expected.items()


async def test_a_page_with_too_many_bytes_is_asked_for_again_with_half_as_many_jobs(
    server: JobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kopf would read it whole."""
    size = len(json.dumps(server.api.objects[JOBS, "default", "a"]))
    monkeypatch.setattr(pages, "PAGE_BYTES", 3 * size)
    operator = Operator()
    async with operator.watching(limits=replace(LIMITS, page_size=8)) as task:
        await until(lambda: operator.known == NAMES and server.watches, task)
    limits = [call.query["limit"] for call in server.lists]
    assert limits[0] == "8" and set(limits[1:]) < {"4", "2", "1"}


def expire_once(*, after: str) -> Callable[[ListOrWatch], bool]:
    refusals = iter([True])
    return lambda call: call.after == after and next(refusals, False)


async def test_a_list_that_expires_between_pages_is_repeated_and_no_job_is_missed(server: JobServer) -> None:
    server.expires = expire_once(after="b")
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: operator.known == NAMES and server.watches, task)
        server.add("young")
        await until(lambda: "young" in operator.known, task)
    assert [call.after for call in server.lists] == ["", "b", "", "d"], "one more list, no page twice"


async def test_pages_that_keep_expiring_grow_until_one_holds_all_jobs(server: JobServer) -> None:
    server.expires = lambda call: bool(call.after)
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: operator.known == NAMES and server.watches, task)
    assert [call.query["limit"] for call in server.lists if not call.after] == ["2", "4", "8"]


async def test_a_watch_rejected_as_expired_leads_to_a_new_list(server: JobServer) -> None:
    """By its HTTP status, at which kopf itself stops."""
    refusals = iter([True])
    server.expires = lambda call: call.is_watch and next(refusals, False)
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: len(server.watches) == 2, task)
    assert [call.after for call in server.lists] == ["", "b", "d", "", "d"]
    assert operator.known == NAMES


async def test_the_server_selects_the_jobs_and_one_that_leaves_the_selection_is_released(server: JobServer) -> None:
    server.add("mine", "ours", team="x")
    operator = Operator()
    async with operator.watching(limits=replace(LIMITS, label_selector="team=x")) as task:
        await until(lambda: operator.known == ["mine", "ours"] and server.watches, task)
        server.add("young", team="x")
        server.add("theirs", team="y")
        server.label("mine", team="y")
        server.label("a", team="x")
        await until(lambda: operator.known == ["a", "ours", "young"], task)
        server.label("mine", team="x")
        await until(lambda: operator.known == ["a", "mine", "ours", "young"], task)
    assert {call.query["labelSelector"] for call in [*server.lists, *server.watches]} == {"team=x"}


async def test_only_the_namespace_whose_list_expires_is_listed_again(server: JobServer) -> None:
    server.add("f", "g", "h", namespace="other")
    server.expires = expire_once(after="g")
    operator = Operator()
    async with operator.watching("default", "other") as task:
        await until(lambda: operator.known == [*NAMES, "f", "g", "h"] and len(server.watches) == 2, task)
    assert [call.after for call in server.lists if call.namespace == "default"] == ["", "b", "d"]
    assert [call.after for call in server.lists if call.namespace == "other"] == ["", "g", ""]


async def test_a_silent_watch_is_renewed_from_its_last_version(server: JobServer) -> None:
    operator = Operator()
    async with operator.watching(limits=replace(LIMITS, inactivity_timeout_seconds=0.2)) as task:
        await until(lambda: server.watches, task)
        server.api.create(("namespaces", "", ""), {"metadata": {"name": "other"}})  # a bookmark for the watch
        await until(lambda: server.watches[-1].query["resourceVersion"] == "106", task)
        server.add("young")
        await until(lambda: "young" in operator.known, task)
    assert len(server.lists) == 3, "the jobs are not listed again"


async def test_whatever_the_watch_delivers_is_noted_and_silence_is_not(server: JobServer) -> None:
    """Its connecting again is no delivery either."""
    operator, limits = Operator(), replace(LIMITS, inactivity_timeout_seconds=0.2)
    async with operator.watching("default", "other", limits=limits) as task:
        await until(lambda: len(server.watches) == 2, task)
        default, other = operator.watches
        server.is_silent = True
        before, calls = (default.delivered_at, other.delivered_at), len(server.watches)
        await until(lambda: len(server.watches) > calls + 3, task)
        assert (default.delivered_at, other.delivered_at) == before
        bookmark = {"metadata": {"resourceVersion": "106"}}
        [*_, watch] = [call for call in server.watches if call.namespace == "default"]
        watch.send("BOOKMARK", bookmark)
        await until(lambda: default.delivered_at > before[0], task)
        assert other.delivered_at == before[1]


async def test_the_end_of_an_empty_list_is_a_delivery(server: JobServer) -> None:
    operator = Operator()
    async with operator.watching("empty") as task:
        await until(lambda: operator.watches, task)
        began = operator.watches[0].delivered_at
        await until(lambda: server.watches, task)
        assert operator.watches[0].delivered_at > began


async def test_kopf_does_not_report_a_deletion_that_it_missed(server: JobServer) -> None:
    """The reason for the sweep: if this fails one day, remove the sweep."""
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: operator.known == NAMES and server.watches, task)
        server.is_silent = True
        server.api.delete((JOBS, "default", "a"), {})
        server.add("young")
        server.watches[0].send("ERROR", EXPIRED)
        await until(lambda: "young" in operator.known and len(server.watches) == 2, task)
    assert "a" in operator.known


async def test_any_other_error_ends_the_watch_and_leaves_no_task(server: JobServer) -> None:
    operator = Operator()
    task = asyncio.create_task(operator.watch("default", "other"))
    await until(lambda: len(server.watches) == 2, task)
    assert kopf_tasks()
    server.watches[-1].send("ERROR", make_error(500, "InternalError"))
    with pytest.raises(Exception, match="InternalError"):
        await asyncio.wait_for(task, 30)
    assert kopf_tasks() == []


@pytest.mark.parametrize("status", [403, 404])
async def test_a_lost_namespace_ends_no_watch_and_its_jobs_are_known_again_when_it_returns(
    server: JobServer, status: int
) -> None:
    server.add("f", namespace="other")
    operator = Operator()
    async with operator.watching("default", "other") as task:
        await until(lambda: operator.known == [*NAMES, "f"] and len(server.watches) == 2, task)
        server.refuses = lambda call: status if call.namespace == "other" else 0
        next(watch for watch in server.watches if watch.namespace == "other").end()
        await until(lambda: operator.refused == ["other"], task)
        server.add("young")
        await until(lambda: "young" in operator.known, task)
        server.add("g", namespace="other")
        server.refuses = lambda call: 0
        await until(lambda: "g" in operator.known, task)
        assert operator.refused == []
    assert len([call for call in server.lists if call.namespace == "default" and not call.after]) == 1


async def test_a_namespace_that_is_missing_at_the_start_holds_up_no_other(
    server: JobServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses = lambda call: 403 if call.namespace == "other" else 0
    operator = Operator()
    async with operator.watching("default", "other") as task:
        await until(lambda: operator.known == NAMES and len(server.calls) > 8, task)
        assert operator.refused == ["other"]
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert line == (
        "cannot watch trainjobs in namespace other, whose jobs are not managed meanwhile: 403 Refused: injected; "
        "trying again"
    )


async def test_an_api_server_that_answers_with_errors_for_long_ends_no_watch(server: JobServer) -> None:
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: operator.known == NAMES and server.watches, task)
        server.refuses = lambda call: 503
        server.watches[0].end()
        before = len(server.calls)
        await until(lambda: len(server.calls) > before + 6, task)
        assert operator.refused == []
        server.refuses = lambda call: 0
        server.add("young")
        await until(lambda: "young" in operator.known, task)


async def test_the_operator_handles_the_signals(server: JobServer) -> None:
    operator = Operator()
    async with operator.watching("default", "other") as task:
        await until(lambda: len(server.watches) == 2, task)
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: operator.signals == 1, task)


async def test_tasks_started_after_the_watch_outlive_it(server: JobServer) -> None:
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: server.watches, task)
        other = asyncio.create_task(asyncio.sleep(600))
    assert not other.cancelled()
    other.cancel()


def nest(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="the limit of its parser cannot be changed")
async def test_a_job_as_deep_as_the_api_server_stores_ends_no_watch(server: JobServer) -> None:
    change_process()
    trainer = {"trainFunc": "train:train_func", "trainLoopConfig": nest(9_900)}
    body = {"metadata": {"name": "deep"}, "spec": {**SPEC, "trainer": trainer}}
    server.api.create((JOBS, "default", "deep"), body)
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: "e" in operator.known and server.watches, task)
        server.add("young")
        await until(lambda: "young" in operator.known, task)
        record = operator.store.job(JobKey("default", "deep"))
    assert record is not None and isinstance(record.read().spec, InvalidSpec)


def test_kopf_uses_the_proxy_that_the_environment_names() -> None:
    """As the operator's own client does: HTTPS_PROXY, NO_PROXY."""
    assert build_settings(WatchLimits()).networking.trust_env


def test_the_limits_fit_the_api_servers_timeouts() -> None:
    settings = build_settings(WatchLimits())
    assert settings.watching.chunk_size == pages.PAGE_SIZE
    assert 61.25 < settings.watching.inactivity_timeout < 75, "after the next bookmark, before events leave the cache"
    assert settings.networking.request_timeout is not None
    assert settings.networking.request_timeout < 300, "a page that hangs does not outlast the list's version"


async def test_kopf_copies_no_job(server: JobServer, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, deepcopy = list[object](), copy.deepcopy

    def count(value: Any, *args: Any) -> Any:
        if isinstance(value, dict) and "spec" in value:
            copied.append(value)
        return deepcopy(value, *args)

    operator = Operator()
    monkeypatch.setattr(copy, "deepcopy", count)
    async with operator.watching() as task:
        await until(lambda: operator.known == NAMES, task)
    assert not copied


async def test_kopf_logs_nothing_that_is_in_a_job(server: JobServer, caplog: pytest.LogCaptureFixture) -> None:
    """With --log-level DEBUG either."""
    caplog.set_level(logging.DEBUG)
    spec = {**SPEC, "env": [{"name": "HF_TOKEN", "value": "s3cr3t"}]}
    server.api.create((JOBS, "default", "secret"), {"metadata": {"name": "secret"}, "spec": spec})
    operator = Operator()
    async with operator.watching() as task:
        await until(lambda: "secret" in operator.known and server.watches, task)
    assert "watch-stream" in caplog.text and "s3cr3t" not in caplog.text


def test_kopf_forgets_a_job_that_was_listed_at_once() -> None:
    """It keeps a task and the last event of each job for this time: with its default of 5 s, of all jobs at a start."""
    assert build_settings(WatchLimits()).queueing.idle_timeout <= 0.5


def test_contract_kopf_has_the_functions_that_are_replaced_and_calls_them_in_the_same_way() -> None:
    """A kopf that watches in another way fails here, and not as an operator that takes a quiet watch for a dead one."""
    ours, theirs = inspect.signature(fetch_pages), inspect.signature(fetching.fetch_objs)
    assert list(ours.parameters) == list(theirs.parameters)
    assert inspect.isasyncgenfunction(fetching.fetch_objs) and inspect.isasyncgenfunction(handlers._deliver)
    assert all(
        each.kind is inspect.Parameter.KEYWORD_ONLY for each in inspect.signature(handlers._deliver).parameters.values()
    )
    assert "fetching.fetch_objs(" in inspect.getsource(handlers._deliver)
    assert " continuous_watch(" in inspect.getsource(watching.infinite_watch)
