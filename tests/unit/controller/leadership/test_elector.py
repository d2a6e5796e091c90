"""Electors on one Lease of the model's API server, with a clock that only the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.controller.leadership.decision import Timing
from railhead.controller.leadership.elector import LEASE_NAME, Elector, LostLease
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError
from railhead.kube.kinds import LEASE
from tests.model.api_server import Object
from tests.model.client import make_client
from tests.model.faults import LOST_ANSWER, NEVER_SENT, Fault
from tests.unit.kube.no_transport import NoTransport

PLACE = (LEASE.plural, "railhead-system", LEASE_NAME)


class Stage:
    """Candidates on one API server; a sleep of theirs moves the clock."""

    def __init__(self) -> None:
        self.client = make_client()
        self.api = self.client.api
        self.now = 1000.0

    def fail(self, *faults: Fault | None) -> None:
        """What becomes of the next requests."""
        left = list(faults)
        self.client.faults.choose = lambda call: left.pop(0) if left else None

    @property
    def lease(self) -> Object:
        spec: Object = self.api.objects[PLACE]["spec"]
        return spec

    @property
    def holder(self) -> str | None:
        return self.lease.get("holderIdentity") if PLACE in self.api.objects else None

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def candidate(self, name: str) -> Elector:
        return Elector(
            self.client,
            namespace="railhead-system",
            identity=name,
            timing=Timing(15),
            monotonic=lambda: self.now,
            sleep=self.sleep,
        )


async def test_the_first_leads_and_the_second_waits() -> None:
    stage = Stage()
    first, second = stage.candidate("first"), stage.candidate("second")
    await first.acquire()
    await second.step()
    assert (first.is_leading(), second.is_leading(), stage.holder) == (True, False, "first")


async def test_a_lease_that_was_given_back_is_taken_at_the_next_look() -> None:
    stage = Stage()
    first, second = stage.candidate("first"), stage.candidate("second")
    await first.acquire()
    await second.step()
    await first.release()
    assert not first.is_leading()
    await second.step()
    assert (second.is_leading(), stage.holder) == (True, "second")
    assert stage.lease["leaseTransitions"] == 1


async def test_the_lease_of_one_that_died_is_taken_after_its_time() -> None:
    stage = Stage()
    first, second = stage.candidate("first"), stage.candidate("second")
    await first.acquire()
    began = stage.now
    await second.acquire()
    assert 15 < stage.now - began <= 15 + 2 * Timing(15).period_seconds
    assert not first.is_leading()


async def test_a_leader_without_answers_stops_before_its_lease_can_be_taken() -> None:
    stage = Stage()
    leader = stage.candidate("first")
    await leader.acquire()
    began = stage.now
    stage.fail(*[NEVER_SENT] * 100)
    with pytest.raises(LostLease, match="not renewed in time"):
        await leader.keep()
    assert stage.now - began < 15


async def test_a_leader_outlives_a_lost_answer() -> None:
    stage = Stage()
    leader = stage.candidate("first")
    await leader.acquire()
    stage.fail(LOST_ANSWER)
    for _ in range(10):
        await stage.sleep(2)
        await leader.step()
        assert leader.is_leading()


async def test_one_that_was_stopped_for_long_knows_at_once_and_gives_nothing_back() -> None:
    stage = Stage()
    paused, other = stage.candidate("paused"), stage.candidate("other")
    await paused.acquire()
    await other.step()
    stage.now += 16
    await other.step()
    assert stage.holder == "other"
    assert not paused.is_leading()
    with pytest.raises(LostLease):
        await paused.keep()
    await paused.release()
    assert stage.holder == "other"


async def test_a_deleted_lease_ends_its_holder() -> None:
    stage = Stage()
    leader = stage.candidate("first")
    await leader.acquire()
    stage.api.remove(PLACE)
    with pytest.raises(LostLease):
        await leader.keep()


async def test_a_label_that_somebody_adds_costs_nothing() -> None:
    stage = Stage()
    leader = stage.candidate("first")
    await leader.acquire()
    stage.api.patch(PLACE, {"metadata": {"labels": {"team": "a"}}})
    for _ in range(10):
        await stage.sleep(2)
        await leader.step()
        assert leader.is_leading()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["step", "step", "step", "release"]),
            st.sampled_from([None, None, None, NEVER_SENT, LOST_ANSWER]),
            st.floats(min_value=0.0, max_value=9.0),
        ),
        max_size=60,
    )
)
def test_there_is_never_a_second_leader(doings: list[tuple[str, str, str | None, float]]) -> None:
    """Any order of looks, renewals, faults and pauses of three candidates."""

    async def play() -> None:
        stage = Stage()
        candidates = {name: stage.candidate(name) for name in "abc"}
        for name, doing, fault, seconds in doings:
            stage.fail(fault, fault)
            await getattr(candidates[name], doing)()
            assert sum(c.is_leading() for c in candidates.values()) <= 1
            stage.now += seconds
            assert sum(c.is_leading() for c in candidates.values()) <= 1

    asyncio.run(play())


async def test_a_fenced_client_reads_and_does_not_write() -> None:
    async def send(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("sent")

    client = KubeClient(NoTransport()).fenced(lambda: False)
    client._send = send  # type: ignore[method-assign]
    for writing in (
        client.create(LEASE, {}, namespace="default"),
        client.patch(LEASE, "x", {}, type_="merge", namespace="default"),
        client.delete(LEASE, "x", namespace="default"),
    ):
        with pytest.raises(KubeError, match="is no longer the leader"):
            await writing
    with pytest.raises(AssertionError, match="sent"):
        await client.get(LEASE, "x", namespace="default")
