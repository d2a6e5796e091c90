"""Watch events update the store and enqueue the job; a pod that we wrote goes to the informer of its namespace."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.contract.answer import Answer
from railhead.contract.loss_rate import JobLosses, LossHistory
from railhead.contract.metric_rule import MetricRule
from railhead.controller.cluster_state import ClusterState
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.observe import PodRecord
from railhead.controller.store import Store
from railhead.kube.informer import Informer
from railhead.kube.selector import parse_selector
from tests.model.client import make_client
from tests.unit.builders import UID
from tests.unit.controller.raws import make_job, make_pod
from tests.unit.controller.test_keyed_queue import FakeClock, take_all

KEY = JobKey("default", "digits")


class Fixture:
    """A ClusterState over an empty store."""

    def __init__(self, *namespaces: str, selector: str = "") -> None:
        self.store = Store()
        self.queue: KeyedQueue[JobKey] = KeyedQueue(FakeClock().call_later)
        self.changes: list[tuple[int, int]] = []
        self.state = ClusterState(
            make_client(),
            self.store,
            self.queue,
            namespaces=namespaces,
            selector=parse_selector(selector),
            on_change=lambda namespace, old, new: self.changes.append((old.attempt, new.attempt)),
        )

    async def due(self) -> list[str]:
        """Names of the queued jobs; their passes count as done."""
        keys = await take_all(self.queue)
        for key in keys:
            self.queue.done(key)
        return [key.name for key in keys]


@pytest.mark.parametrize("event_type", [None, "ADDED", "MODIFIED"])
async def test_a_new_or_changed_job_is_queued(event_type: str | None) -> None:
    fixture = Fixture()
    fixture.state.on_job(event_type, make_job(3))
    assert await fixture.due() == ["digits"]
    fixture.state.on_job(event_type, make_job(3))
    assert await fixture.due() == []


async def test_a_deleted_job_is_forgotten_and_a_late_response_does_not_bring_it_back() -> None:
    fixture = Fixture()
    fixture.state.on_job("ADDED", make_job(3))
    fixture.state.on_job("DELETED", make_job(7))
    fixture.state.record_job(make_job(5))
    assert fixture.state.find_facts(KEY) is None
    assert list(fixture.store.all_records()) == []


MINE, THEIRS = {"labels": {"team": "a"}}, {"labels": {"team": "b"}}


async def test_a_response_for_a_job_that_left_the_selection_releases_it() -> None:
    """The response may come before the watch's DELETED, or after it."""
    for left in (3, 5):
        fixture = Fixture(selector="team=a")
        fixture.state.on_job("ADDED", make_job(2, metadata=MINE))
        assert await fixture.due() == ["digits"]
        fixture.state.record_job(make_job(4, metadata=THEIRS))
        assert fixture.store.job(KEY) is None
        fixture.state.on_job("DELETED", make_job(left, metadata=MINE))
        fixture.state.record_job(make_job(3, metadata=MINE))
        assert list(fixture.store.all_records()) == [] == await fixture.due()


async def test_a_job_that_returns_to_the_selection_is_run_again_with_its_pods() -> None:
    fixture = Fixture(selector="team=a")
    fixture.state.record_pod(make_pod("w", resourceVersion="1"))
    fixture.state.on_job("ADDED", make_job(2, metadata=MINE))
    fixture.state.on_job("DELETED", make_job(3, metadata=MINE))
    fixture.state.record_pod(make_pod("w", resourceVersion="4"))
    await fixture.due()
    fixture.state.on_job("ADDED", make_job(6, metadata=MINE))
    assert await fixture.due() == ["digits"]
    fixture.state.record_job(make_job(5, metadata=THEIRS))
    assert fixture.store.job(KEY) is not None, "a late response"
    facts = fixture.state.find_facts(KEY)
    assert facts is not None and [pod.name for pod in facts.pods] == ["w"]


async def test_each_change_of_a_pod_queues_its_job() -> None:
    fixture = Fixture()
    fixture.state.record_job(make_job(1))
    await fixture.due()
    pod = make_pod("w", resourceVersion="4")
    fixture.state.record_pod(pod)
    assert await fixture.due() == ["digits"]
    fixture.state.record_pod(pod)
    assert await fixture.due() == []
    fixture.state.record_pod(make_pod("stranger", owner=None, resourceVersion="5"))
    assert await fixture.due() == []
    facts = fixture.state.find_facts(KEY)
    assert facts is not None
    assert (facts.uid, [p.name for p in facts.pods]) == (UID, ["w"])
    assert facts.answer == Answer(restarts_in_place=3, hang_policy="Warn")
    changed = make_job(9)
    changed["spec"]["progressDeadlineSeconds"] = 600
    rule = {"name": "nan", "type": "IsNaN", "metric": "loss", "action": "Restart", "consecutive": 2}
    changed["spec"]["metricPolicy"] = {"rules": [rule]}
    changed["metadata"]["generation"] = 9
    changed["status"] = {"goodput": {"productiveSeconds": 7200, "interruptions": {"Hardware": 2, "Application": 5}}}
    fixture.state.record_job(changed)
    facts = fixture.state.find_facts(KEY)
    assert facts is not None and facts.answer.progress_deadline_seconds == 600
    assert facts.answer.losses == LossHistory(2, 7200)
    status = {"goodput": {"gpuSeconds": 3600, "interruptions": {"Hang": 3}}}
    fixture.state.record_job(make_job(10, status=status, metadata={"name": "other", "uid": "another"}))
    facts = fixture.state.find_facts(KEY)
    assert facts is not None and facts.answer.losses == LossHistory(2, 7200, JobLosses(3, 3600))
    assert facts.answer.metric_rules == (MetricRule("nan", "IsNaN", "Restart", metric="loss", consecutive=2),)


async def test_a_pod_that_we_wrote_is_cached_by_the_informer_of_its_namespace() -> None:
    fixture = Fixture("default", "other")
    fixture.state.record_pod(make_pod("w", resourceVersion="4"))
    first, second = fixture.state.informers
    assert [len(list(informer.items())) for informer in (first, second)] == [1, 0]


def test_caches_are_synced_only_after_each_informers_first_list() -> None:
    assert not Fixture().state.are_synced


async def answer(informer: Informer[PodRecord], *, is_refused: bool = False) -> None:
    """Its next request gets the list, or a 403."""
    client = make_client()
    client.faults.script["list", "pods"] = [403] if is_refused else []
    informer._client = client
    with suppress(TimeoutError, AssertionError):  # the model has no watches
        await asyncio.wait_for(informer.run(), 0.05)


async def test_a_refused_namespace_holds_up_no_other() -> None:
    fixture = Fixture("default", "other")
    first, second = fixture.state.informers
    await answer(second, is_refused=True)
    assert not fixture.state.are_synced, "the first namespace has not answered"
    await answer(first)
    assert fixture.state.are_synced
    assert fixture.state.is_current("default") and not fixture.state.is_current("other")


async def test_an_operator_that_can_watch_nothing_is_not_ready() -> None:
    fixture = Fixture()
    await answer(fixture.state.informers[0], is_refused=True)
    assert not fixture.state.are_synced


@pytest.mark.parametrize(("back", "due"), [("default", ["digits"]), ("other", ["young"]), (None, ["digits", "young"])])
async def test_only_the_jobs_of_a_namespace_that_is_back_become_due(back: str | None, due: list[str]) -> None:
    fixture = Fixture(*([back] if back else []))
    fixture.state.on_job(None, make_job(3))
    fixture.state.on_job(None, make_job(4, name="young", uid="u2", metadata={"namespace": "other"}))
    await fixture.due()
    fixture.state.informers[0].state.on_return()
    assert await fixture.due() == due


def test_a_change_of_a_known_job_is_reported_once() -> None:
    fixture = Fixture()
    for version, attempt in ((1, 0), (2, 1), (2, 1), (1, 0), (3, 2)):
        fixture.state.record_job(make_job(version, status={"attempt": attempt}))
    assert fixture.changes == [(0, 1), (1, 2)]
    fixture.state.record_job(make_job(4, uid="another", status={"attempt": 1}))
    assert fixture.changes == [(0, 1), (1, 2)]
