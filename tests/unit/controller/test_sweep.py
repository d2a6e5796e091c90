"""The sweep: jobs whose deletion nobody told of are forgotten, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api.job import JobKey
from railhead.controller.store import Store
from railhead.controller.sweep import sweep_once
from railhead.kube.errors import RetryAfter
from railhead.kube.kinds import Kind
from tests.unit.controller.fake_client import FakeClient
from tests.unit.controller.raws import Object, make_job


class Cluster(FakeClient):
    """Lists the TrainJobs that are there; `on_list` happens while the list is on its way."""

    def __init__(self, version: int, *jobs: Object) -> None:
        super().__init__()
        self.version = version
        self.jobs = jobs
        self.namespaces: list[str | None] = []
        self.on_list: Any = None

    async def list(self, kind: Kind, *, namespace: str | None = None, **options: Any) -> Object:
        assert options == {"metadata_only": True}, "specs and statuses are of no use here"
        self.namespaces.append(namespace)
        items = [{"metadata": j["metadata"]} for j in self.jobs if namespace in (None, j["metadata"]["namespace"])]
        if self.on_list:
            self.on_list()
        self.version += 1
        return {"metadata": {"resourceVersion": str(self.version - 1)}, "items": items}


def make_store(*jobs: Object) -> Store:
    store = Store()
    for job in jobs:
        store.put_job(job)
    return store


def names_of(store: Store) -> list[str]:
    return sorted(key.name for key in store.all_keys())


HERE = make_job(3, name="here", uid="u1")
GONE = make_job(4, name="gone", uid="u2")


async def test_only_the_jobs_that_are_not_there_are_forgotten() -> None:
    store = make_store(HERE, GONE)
    assert await sweep_once(Cluster(9, HERE), store, ()) == [JobKey("default", "gone")]
    assert names_of(store) == ["here"]


async def test_a_late_answer_does_not_bring_back_what_was_swept() -> None:
    store = make_store(GONE)
    await sweep_once(Cluster(9), store, ())
    assert store.put_job(make_job(8, name="gone", uid="u2")) is None


async def test_a_late_answer_of_any_namespace_does_not_bring_back_what_was_swept() -> None:
    """Each namespace is listed at a version of its own."""
    store = make_store(make_job(4, name="gone", uid="u2", metadata={"namespace": "b"}))
    await sweep_once(Cluster(9), store, ("a", "b"))
    assert store.put_job(make_job(10, name="gone", uid="u2", metadata={"namespace": "b"})) is None


async def test_a_job_of_a_gone_jobs_name_is_not_taken_for_it() -> None:
    store = make_store(make_job(3, name="here", uid="old"))
    assert await sweep_once(Cluster(9, HERE), store, ()) == [JobKey("default", "here")]
    assert store.put_job(make_job(3, name="here", uid="u1")) is not None


async def test_a_job_made_while_the_list_is_on_its_way_stays() -> None:
    store = make_store(HERE)
    cluster = Cluster(9, HERE)
    cluster.on_list = lambda: store.put_job(make_job(10, name="young", uid="u3"))
    assert await sweep_once(cluster, store, ()) == []
    assert names_of(store) == ["here", "young"]


async def test_a_successor_that_comes_while_the_list_is_on_its_way_stays() -> None:
    store = make_store(GONE)
    cluster = Cluster(9)
    cluster.on_list = lambda: store.put_job(make_job(10, name="gone", uid="u3"))
    await sweep_once(cluster, store, ())
    assert store.key_of("u3") == JobKey("default", "gone")
    assert store.key_of("u2") is None


async def test_each_watched_namespace_is_asked_and_none_other() -> None:
    there = make_job(3, name="there", uid="u3", metadata={"namespace": "b"})
    store = make_store(HERE, there)
    cluster = Cluster(9, HERE, there)
    assert await sweep_once(cluster, store, ("default", "b")) == []
    assert cluster.namespaces == ["default", "b"]


async def test_without_an_answer_nothing_is_forgotten() -> None:
    store = make_store(HERE, GONE)

    def break_off() -> None:
        raise RetryAfter(0, "NoAnswer", "reset")

    cluster = Cluster(9)
    cluster.on_list = break_off
    with pytest.raises(RetryAfter):
        await sweep_once(cluster, store, ())
    assert names_of(store) == ["gone", "here"]
