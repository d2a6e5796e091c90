"""What is kept of Kueue's objects, whom they wake, and what a cluster without Kueue costs."""

from __future__ import annotations

from typing import Any

from railhead.api.parsed_spec import JobKey
from railhead.controller.cluster_state import ClusterState
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.observe import record_pod
from railhead.controller.observe_queue import observe_workload
from railhead.controller.queues import Queues
from railhead.controller.store import Store
from railhead.json_object import Object
from railhead.kube.errors import Gone
from railhead.kube.kinds import RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from railhead.planning.observed import Denial
from railhead.planning.queue_view import Flavor
from tests.model.api_server import ModelApiServer
from tests.model.client import ModelClient
from tests.model.faults import Faults
from tests.unit.builders import NOW, SETTINGS, SPEC, UID
from tests.unit.controller.raws import make_pod
from tests.unit.kueue import make_raw

KEY = JobKey("default", "digits")
GONE = Gone(404, "NotFound", "the server could not find the requested resource")


def make_job(**labels: str) -> Object:
    metadata = {"namespace": "default", "name": "digits", "uid": UID, "resourceVersion": "5", "generation": 1}
    return {"metadata": {**metadata, "labels": labels}, "spec": dict(SPEC), "status": {}}


def test_a_workload_that_only_carries_a_jobs_label_is_not_the_jobs() -> None:
    """Anyone who may create Workloads could admit a job."""
    for raw in (make_raw("another-name"), make_raw(metadata={"ownerReferences": []})):
        queues = Queues()
        queues.change_workload(None, observe_workload(raw))
        assert queues.key_of(UID) is None


class World:
    """The caches of an operator that uses Kueue; `woken` are the keys that are due."""

    def __init__(self) -> None:
        self.store = Store()
        self.queue: KeyedQueue[JobKey] = KeyedQueue(lambda seconds, call: None)  # type: ignore[arg-type,return-value]
        api = ModelApiServer(lambda: NOW)
        client = ModelClient(api, Faults(yields=lambda: 0), wall=lambda: NOW)
        self.state = ClusterState(client, self.store, self.queue, uses_kueue=True)
        assert self.state.queues is not None
        self.watches = self.state.queues

    def list_all(self) -> None:
        """The API server lists all of Kueue's kinds."""
        for informer in self.watches.informers:
            informer.is_synced = True
            informer.answered.set()
            informer.state.accept()

    def refuse_all(self) -> None:
        for informer in self.watches.informers:
            informer.state.refuse(GONE)
            informer.answered.set()

    async def take_woken(self) -> set[JobKey]:
        woken = set()
        while self.queue.depth:
            key = await self.queue.get()
            woken.add(key)
            self.queue.done(key)
        return woken

    def look(self) -> Any:
        observed = self.store.observe(KEY, now=NOW, settings=SETTINGS)
        assert observed is not None
        return observed.queue


async def test_a_job_learns_when_kueue_appears_and_when_it_goes() -> None:
    world = World()
    world.state.record_job(make_job())
    assert world.look().state == "unknown"
    await world.take_woken()
    world.refuse_all()
    assert world.look().state == "missing" and await world.take_woken() == {KEY}
    world.list_all()
    assert world.look().state == "served" and await world.take_woken() == {KEY}
    world.refuse_all()
    assert world.look().state == "missing" and await world.take_woken() == {KEY}


async def test_a_job_learns_that_only_the_workloads_are_left() -> None:
    world = World()
    world.state.record_job(make_job())
    world.list_all()
    *_, classes = world.watches.informers
    classes.state.refuse(GONE)
    assert world.look().state == "partial" and await world.take_woken() == {KEY}


async def test_the_jobs_labels_its_workload_and_the_flavors_reach_the_job() -> None:
    world = World()
    world.state.record_job(make_job(**{"kueue.x-k8s.io/queue-name": "team-a", "kueue.x-k8s.io/priority-class": "high"}))
    world.list_all()
    await world.take_woken()
    world.state.record_workload(make_raw())
    assert await world.take_woken() == {KEY}
    flavors = next(each for each in world.watches.informers if each.state.kind == RESOURCE_FLAVOR)
    metadata = {"name": "spot", "uid": "f", "resourceVersion": "8"}
    flavors.record_write({"metadata": metadata, "spec": {"nodeLabels": {"pool": "spot"}}})
    classes = next(each for each in world.watches.informers if each.state.kind == WORKLOAD_PRIORITY_CLASS)
    classes.record_write({"metadata": {"name": "high", "uid": "c", "resourceVersion": "9"}, "value": 10})
    seen = world.look()
    assert (seen.queue_label, seen.priority_label, seen.priority) == ("team-a", "high", 10)
    assert seen.workload.version == "7" and seen.flavors["spot"].node_labels == {"pool": "spot"}


def test_the_workload_of_a_job_that_is_gone_is_left_with_its_pods() -> None:
    world = World()
    world.state.record_job(make_job())
    world.state.record_workload(make_raw(metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"}))
    world.state.on_pod(None, record_pod(make_pod("head")))
    assert world.store.list_left_workloads(KEY) == [], "the job still exists"
    world.state.record_job_gone(KEY, UID)
    [(workload, pods)] = world.store.list_left_workloads(KEY)
    assert (workload.name, [pod.name for pod in pods]) == ("digits-0f1e2d", ["head"])
    assert workload.has_finalizer and WORKLOAD.path() == "/apis/kueue.x-k8s.io/v1beta2/workloads"


def test_a_denied_change_is_forgotten_with_the_workload() -> None:
    world = World()
    world.state.record_job(make_job())
    world.list_all()
    world.state.record_workload(make_raw())
    world.state.record_denial(KEY, UID, Denial("Workload", "digits-0f1e2d", "no", 1, NOW, "change"))

    def find() -> list[str]:
        observed = world.store.observe(KEY, now=NOW, settings=SETTINGS)
        assert observed is not None
        return [each.message for each in observed.denials]

    assert find() == ["no"]
    world.store.queues.change_workload(observe_workload(make_raw()), None)
    assert find() == []


async def test_a_new_flavor_or_class_wakes_the_jobs_that_need_it_and_no_others() -> None:
    world = World()
    world.state.record_job(make_job(**{"kueue.x-k8s.io/priority-class": "high"}) | {"status": {"phase": "Queued"}})
    world.list_all()
    world.state.record_workload(make_raw())
    await world.take_woken()
    queues, missing = world.store.queues, frozenset[JobKey]()
    assert queues.change_flavor(None, Flavor("other")) == missing
    assert queues.change_flavor(None, Flavor("spot")) == {KEY}
    assert queues.change_flavor(Flavor("spot"), Flavor("spot")) == missing, "the job had its answer"
    assert queues.change_priority(None, ("low", 1)) == missing and queues.change_priority(None, ("high", 2)) == {KEY}
    queues.change_workload(observe_workload(make_raw()), None)
    world.state.record_job_gone(KEY, UID)
    assert queues.change_flavor(None, Flavor("spot")) == queues.change_priority(None, ("high", 2)) == missing
