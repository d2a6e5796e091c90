"""What the operator spends, counted: requests per job, and function calls per event however many jobs there are."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from railhead.api import names
from railhead.api.parsed_spec import JobKey
from railhead.controller.cluster_state import ClusterState
from railhead.controller.events import EventRecorder
from railhead.controller.executor import Executor
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.loop import Loop
from railhead.controller.store import Store
from railhead.resources.base import JobNetworkPolicy
from tests.model.client import make_client
from tests.unit.builders import NOW, RUNNING_STATUS, SETTINGS
from tests.unit.controller.raws import make_container, make_job, make_pod
from tests.unit.controller.test_keyed_queue import FakeClock

NEW = {"observedGeneration": -1, "attempt": 0, "round": 0}  # the definition's default

FEW, MANY = 20, 1000


class Cluster:
    """An operator that knows this many running jobs, with a head and two workers each."""

    def __init__(self, jobs: int) -> None:
        self.store, self.client = Store(), make_client()
        self.queue: KeyedQueue[JobKey] = KeyedQueue(FakeClock().call_later)
        self.state = ClusterState(self.client, self.store, self.queue)
        executor = Executor(self.client, self.state, EventRecorder(self.client))
        self.loop = Loop(self.store, self.queue, executor, SETTINGS, now=lambda: NOW)
        for number in range(jobs):
            self.see_job(number, version=1)
            for role, slot in ((names.HEAD, -1), (names.WORKER, 0), (names.WORKER, 1)):
                self.see_pod(number, role, slot, version=1)

    def see_job(self, number: int, *, version: int) -> None:
        job = make_job(version, name=f"job-{number}", uid=f"{number:06}-uid", status=RUNNING_STATUS)
        self.state.on_job("MODIFIED", job)

    def see_pod(self, number: int, role: str, slot: int, *, version: int) -> None:
        labels = {names.LABEL_ROLE: role, names.LABEL_ATTEMPT: "1", names.LABEL_SLOT: str(slot)}
        labels[names.LABEL_ROUND] = "0"
        status = {"phase": "Running", "containerStatuses": [make_container(running={"startedAt": "t"})]}
        owner = f"{number:06}-uid"
        name = names.pod_name(f"job-{number}", owner, role, 1, slot, 0)
        pod = make_pod(name, owner=owner, status=status, labels=labels, resourceVersion=str(version))
        self.state.record_pod(pod)

    async def reconcile(self, number: int) -> None:
        await self.loop.reconcile(JobKey("default", f"job-{number}"))


def count_calls(action: Callable[[], object]) -> int:
    """Function calls, Python's and C's."""
    counted = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return counted


def play(jobs: int) -> dict[str, int]:
    """The calls of each kind of event, after one that fills the caches of what is imported and computed once."""
    cluster = Cluster(jobs)
    number = jobs // 2
    found: dict[str, int] = {}
    with asyncio.Runner() as runner:
        for version in (2, 3):
            found = {
                "job": count_calls(lambda v=version: cluster.see_job(number, version=v)),  # type: ignore[misc]
                "pod": count_calls(lambda v=version: cluster.see_pod(number, names.WORKER, 1, version=v)),  # type: ignore[misc]
                "pass": count_calls(lambda: runner.run(cluster.reconcile(number))),
            }
    return found


@pytest.mark.counts_calls
def test_an_event_costs_the_same_however_many_jobs_there_are() -> None:
    few, many = play(FEW), play(MANY)
    for event, calls in few.items():
        assert many[event] <= 1.05 * calls + 5, f"{event}: {calls} calls with {FEW} jobs, {many[event]} with {MANY}"


@pytest.mark.counts_calls
@pytest.mark.parametrize(("event", "bound"), [("job", 275), ("pod", 265), ("pass", 2220)])
def test_an_event_costs_few_calls(event: str, bound: int) -> None:
    """The bounds are a tenth or more above what was counted when they were last set."""
    assert play(FEW)[event] <= bound


async def test_a_job_of_1_and_3_costs_8_requests_until_its_pods_exist() -> None:
    store, client = Store(), make_client()
    queue: KeyedQueue[JobKey] = KeyedQueue(FakeClock().call_later)
    state = ClusterState(client, store, queue)
    executor = Executor(client, state, EventRecorder(client))
    settings = replace(SETTINGS, job_network_policy=JobNetworkPolicy())
    loop = Loop(store, queue, executor, settings, now=lambda: NOW)
    asked: list[Counter[tuple[str, str]]] = []
    for name in ("first", "second"):
        spec = {**make_job()["spec"], "scaling": {"numWorkers": 3}}
        job = make_job(name=name, uid=f"uid-{name}", spec=spec, status=NEW)
        client.api.put(job)
        state.on_job("ADDED", job)
        before = len(client.asked)
        await loop.reconcile(JobKey("default", name))
        asked.append(Counter((request.verb, request.plural) for request in client.asked[before:]))
    own = {
        ("patch/status", "trainjobs"): 1,
        ("create", "secrets"): 1,
        ("create", "configmaps"): 1,
        ("create", "networkpolicies"): 1,
        ("create", "pods"): 4,
    }
    assert asked[1] == own
    shared = [(verb, kind) for verb in ("get", "create") for kind in ("configmaps", "services")]
    assert asked[0] - asked[1] == dict.fromkeys(shared, 1), "once per namespace"
