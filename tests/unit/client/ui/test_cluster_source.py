"""The page's jobs from an API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from railhead.client.cluster.connection import Target, open_cluster
from railhead.client.cluster.job_rows import JobNumbers
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.open_run import ReaderNeeded
from railhead.client.ui.cluster_source import ClusterSource
from railhead.client.ui.page_source import TrainJobName
from railhead.contract.loss_rate import JobLosses
from railhead.json_object import Object
from tests.unit.cli.api_server import serve
from tests.unit.client.jobs import make_job, make_pod, make_running

JOBS = "/apis/railhead.dev/v1alpha1/namespaces/team-a/trainjobs"
PODS = "/api/v1/namespaces/team-a/pods"
EVENTS = "/api/v1/namespaces/team-a/events"


def version(made: Object, number: int = 5) -> Object:
    made["metadata"].setdefault("uid", made["metadata"]["name"])
    made["metadata"]["resourceVersion"] = str(number)
    return made


class Answers:
    """An API server with one job and one pod. It refuses events."""

    def __init__(self) -> None:
        self.watches: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == EVENTS:
            message = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "you may not list events"}
            return web.json_response(message, status=403)
        if request.query.get("watch"):
            return await self._watch(request)
        if request.path == f"{JOBS}/digits":
            return web.json_response(version(make_running()))
        items = {JOBS: [version(make_running())], PODS: [version(make_pod("digits-head"))]}.get(request.path, [])
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.watches.append(request.path)
        response = web.StreamResponse()
        await response.prepare(request)
        changed = {JOBS: version(make_job("new"), 6), PODS: version(make_pod("digits-w0", slot=0), 6)}[request.path]
        await response.write(json.dumps({"type": "ADDED", "object": changed}).encode() + b"\n")
        await asyncio.Event().wait()
        return response


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_jobs_are_listed_and_then_watched(tmp_path: Path) -> None:
    answers = Answers()
    names: list[str] = []
    listed: list[list[str]] = []
    is_new = asyncio.Event()

    def on_change(_: JobNumbers | None, new: JobNumbers | None) -> None:
        assert new is not None
        names.append(new.row.name)
        if new.row.name == "new":
            is_new.set()

    async with serve(answers.answer, tmp_path) as kubeconfig, open_cluster(Target(kubeconfig)) as cluster:
        source = ClusterSource(cluster)
        watching = asyncio.create_task(source.watch_jobs(on_change, lambda: listed.append(list(names))))
        await is_new.wait()
        await end(watching)
    assert source.place == "namespace team-a"
    assert names == ["digits", "new"]
    assert listed[0][0] == "digits"
    assert answers.watches == [JOBS]


class Losses(Answers):
    """An API server with jobs that train on GPUs, of which only one has lost something."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == f"{JOBS}/digits":
            return web.json_response(version(make_gpu_job("digits", losses=0)))
        if request.path != JOBS or request.query.get("watch"):
            return await super().answer(request)
        self.lists += 1
        items = [version(make_gpu_job("digits", losses=0)), version(make_gpu_job("other", losses=4))]
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": items})


def make_gpu_job(name: str, *, losses: int) -> Object:
    job = make_running(goodput={"gpuSeconds": 3600, "interruptions": {"Hardware": losses}})
    job["metadata"]["name"] = name
    return job


@pytest.mark.parametrize(("selector", "lists"), [("", 0), ("team=a", 1)])
async def test_a_job_is_read_without_a_list_of_all_others(tmp_path: Path, selector: str, lists: int) -> None:
    """Their losses count for its rate. A page of some jobs does not know those of all."""
    answers = Losses()
    is_listed = asyncio.Event()
    async with serve(answers.answer, tmp_path) as kubeconfig, open_cluster(Target(kubeconfig)) as cluster:
        source = ClusterSource(cluster, selector)
        watching = asyncio.create_task(source.watch_jobs(lambda _old, _new: None, is_listed.set))
        await is_listed.wait()
        before = answers.lists
        snapshot = await source.read_snapshot(TrainJobName("team-a", "digits"))
        await end(watching)
    assert answers.lists - before == lists
    assert snapshot.namespace_losses == JobLosses(4, 7200)


async def test_pods_are_watched_by_who_may_not_list_events(tmp_path: Path) -> None:
    answers = Answers()
    changes = asyncio.Semaphore(0)
    async with serve(answers.answer, tmp_path) as kubeconfig, open_cluster(Target(kubeconfig)) as cluster:
        source = ClusterSource(cluster)
        snapshot = await source.read_snapshot(TrainJobName("team-a", "digits"))
        watching = asyncio.create_task(source.watch_details(snapshot.job, changes.release))
        for _ in range(2):  # the list, and the new pod
            await changes.acquire()
        assert not watching.done()
        await end(watching)
    assert [pod.name for pod in snapshot.pods] == ["digits-head"]
    assert "you may not list events" in snapshot.notes[0]


async def test_a_job_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)

    async with serve(refuse, tmp_path) as kubeconfig, open_cluster(Target(kubeconfig)) as cluster:
        with pytest.raises(ClientError) as raised:
            await ClusterSource(cluster).read_snapshot(TrainJobName("team-b", "never"))
    assert raised.value.code == ExitCode.NOT_FOUND
    assert "team-b" in str(raised.value)


async def test_no_readers_pod_is_started_unless_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build_exec(_: object) -> tuple[str, ...]:
        return ("kubectl",)

    monkeypatch.setattr("railhead.client.run.open_run.build_exec", build_exec)
    job = make_running(spec={"trainer": {"trainFunc": "train:main"}, "run": {"storagePath": "/runs"}})
    say: Callable[[str], None] = print
    async with serve(Answers().answer, tmp_path) as kubeconfig, open_cluster(Target(kubeconfig)) as cluster:
        opened = ClusterSource(cluster).open_files(job, is_own=False, may_start_reader=False, say=say)
        with pytest.raises(ReaderNeeded, match="a reader's pod must be started"):
            async with opened:
                pass
