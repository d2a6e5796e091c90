"""The sweep: forgets the jobs whose deletion event was missed, and no others."""

from __future__ import annotations

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.controller.store import Store
from railhead.controller.watch_guard import WentBack, sweep_once
from railhead.kube.client import METADATA_ONLY
from railhead.kube.errors import RetryAfter
from tests.model.client import make_client
from tests.model.faults import LOST_ANSWER
from tests.unit.controller.raws import Object, make_job
from tests.unit.controller.test_store import find_key


def make_store(*jobs: Object) -> Store:
    store = Store()
    for job in jobs:
        store.put_job(job)
    return store


def names_of(store: Store) -> list[str]:
    return sorted(record.key.name for record in store.all_records())


HERE = make_job(3, name="here", uid="u1")
GONE = make_job(4, name="gone", uid="u2")


async def test_only_missing_jobs_are_forgotten() -> None:
    store = make_store(HERE, GONE)
    assert await sweep_once(make_client(HERE), store, ()) == [JobKey("default", "gone")]
    assert names_of(store) == ["here"]


async def test_a_late_response_does_not_bring_back_a_swept_job() -> None:
    store = make_store(GONE)
    client = make_client()
    await sweep_once(client, store, ())
    assert store.put_job(make_job(client.api.version, name="gone", uid="u2")) is None


async def test_a_late_response_from_any_namespace_does_not_bring_back_a_swept_job() -> None:
    """Each namespace is listed at its own version."""
    store = make_store(make_job(4, name="gone", uid="u2", metadata={"namespace": "b"}))
    client = make_client()
    client.taken = lambda request: client.api.put(HERE)
    await sweep_once(client, store, ("a", "b"))
    second = client.api.version - 1
    assert store.put_job(make_job(second, name="gone", uid="u2", metadata={"namespace": "b"})) is None


async def test_a_new_job_with_a_swept_jobs_name_stays() -> None:
    store = make_store(make_job(3, name="here", uid="old"))
    assert await sweep_once(make_client(HERE), store, ()) == [JobKey("default", "here")]
    assert store.put_job(make_job(3, name="here", uid="u1")) is not None


async def test_a_job_created_during_the_list_stays() -> None:
    store = make_store(HERE)
    client = make_client(HERE)
    client.taken = lambda request: store.put_job(client.api.put(make_job(name="young", uid="u3")))
    assert await sweep_once(client, store, ()) == []
    assert names_of(store) == ["here", "young"]


async def test_a_successor_created_during_the_list_stays() -> None:
    store = make_store(GONE)
    client = make_client()
    client.taken = lambda request: store.put_job(client.api.put(make_job(name="gone", uid="u3")))
    await sweep_once(client, store, ())
    assert find_key(store, "u3") == JobKey("default", "gone")
    assert find_key(store, "u2") is None


async def test_only_the_watched_namespaces_are_listed() -> None:
    there = make_job(3, name="there", uid="u3", metadata={"namespace": "b"})
    store = make_store(HERE, there)
    client = make_client(HERE, there)
    assert await sweep_once(client, store, ("default", "b")) == []
    assert [r.path.split("/")[5] for r in client.asked] == ["default", "b"]


async def test_a_job_whose_labels_match_no_more_is_forgotten() -> None:
    mine = make_job(3, name="mine", uid="u4", metadata={"labels": {"team": "a"}})
    theirs = make_job(5, name="theirs", uid="u5", metadata={"labels": {"team": "b"}})
    store = make_store(mine, theirs)
    lost = await sweep_once(make_client(mine, theirs), store, (), selector="team=a")
    assert lost == [JobKey("default", "theirs")]


async def test_only_metadata_is_requested() -> None:
    """The sweep needs neither specs nor statuses."""
    client = make_client(HERE)
    await sweep_once(client, make_store(HERE), ())
    assert [r.accept for r in client.asked] == [METADATA_ONLY]


async def test_without_a_response_nothing_is_forgotten() -> None:
    store = make_store(HERE, GONE)
    client = make_client()
    client.faults.script["list", "trainjobs"] = [LOST_ANSWER]
    with pytest.raises(RetryAfter):
        await sweep_once(client, store, ())
    assert names_of(store) == ["gone", "here"]


@pytest.mark.parametrize("status", [403, 404])
async def test_a_namespace_that_cannot_be_listed_holds_up_no_other_and_keeps_its_jobs(status: int) -> None:
    lost = make_job(2, name="lost", uid="u3", metadata={"namespace": "a"})
    store = make_store(lost, HERE, GONE)
    client = make_client(HERE)
    client.faults.script["list", "trainjobs"] = [status]
    assert await sweep_once(client, store, ("a", "default")) == [JobKey("default", "gone")]
    assert names_of(store) == ["here", "lost"]


async def test_without_any_list_nothing_is_forgotten() -> None:
    store, client = make_store(HERE), make_client()
    client.faults.script["list", "trainjobs"] = [403, 403]
    assert await sweep_once(client, store, ("a", "default")) == []
    assert await sweep_once(client, store, ()) == [JobKey("default", "here")]


async def test_a_restored_etcd_is_noticed_by_the_version_of_a_job() -> None:
    client = make_client(HERE)
    store = make_store(make_job(client.api.version + 1, name="here", uid="u1"))
    with pytest.raises(WentBack, match="etcd was restored from a backup"):
        await sweep_once(client, store, ())


async def test_a_restored_etcd_is_noticed_by_the_version_of_the_last_list() -> None:
    client = make_client(HERE)
    store = make_store(HERE)
    assert await sweep_once(client, store, ("a", "default")) == []
    assert await sweep_once(client, store, ("a", "default")) == []
    client.api.version -= 1
    with pytest.raises(WentBack):
        await sweep_once(client, store, ("a", "default"))


async def test_an_event_during_the_list_is_no_restore() -> None:
    client = make_client(HERE)
    store = make_store(HERE)
    client.taken = lambda request: store.put_job(make_job(client.api.version + 1, name="new", uid="u3"))
    assert await sweep_once(client, store, ()) == []
