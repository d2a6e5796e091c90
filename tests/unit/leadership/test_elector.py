"""Electors on one Lease of a small API server, with a clock that only the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.controller.leadership.decision import Timing
from railhead.controller.leadership.elector import LEASE_NAME, Elector, LostLease
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Gone, KubeError, RetryAfter
from railhead.kube.kinds import Kind
from tests.unit.controller.fake_client import FakeClient
from tests.unit.kube.no_transport import NoTransport

NO_ANSWER = RetryAfter(0, "NoAnswer", "reset")


class LeaseServer(KubeClient):
    """One Lease, as the API server keeps it: a create is refused when it is there, a patch of another version too.

    Attributes:
        faults: what becomes of the next requests: "" good, "lost" not done, "unheard" done without an answer.
    """

    def __init__(self) -> None:
        super().__init__(NoTransport())
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.faults: list[str] = []
        self.writes = 0

    async def _call(self, method: str, kind: Kind, path: str, *, verb: str, body: Any = None, **_: Any) -> Any:
        assert kind.plural == "leases"
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "lost":
            raise NO_ANSWER
        answer = self._do(verb, body)
        if fault == "unheard":
            raise NO_ANSWER
        return answer

    def _do(self, verb: str, body: Any) -> dict[str, Any]:
        if verb == "create":
            if self.lease is not None:
                raise Conflict(409, "AlreadyExists", "exists")
            return self._store(body["spec"])
        if self.lease is None:
            raise Gone(404, "NotFound", "not found")
        if verb == "get":
            return self.lease
        assert verb == "patch"
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        return self._store({**self.lease["spec"], **body["spec"]})

    def _store(self, spec: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.writes += 1
        kept = {key: value for key, value in spec.items() if value is not None}
        self.lease = {"metadata": {"name": LEASE_NAME, "resourceVersion": str(self.version)}, "spec": kept}
        return self.lease

    @property
    def holder(self) -> str | None:
        return str(self.lease["spec"].get("holderIdentity")) if self.lease else None


class Stage:
    """Candidates; a sleep of theirs moves the clock."""

    def __init__(self) -> None:
        self.server = LeaseServer()
        self.now = 1000.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def candidate(self, name: str) -> Elector:
        return Elector(
            self.server,
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
    assert (first.is_leading(), second.is_leading(), stage.server.holder) == (True, False, "first")


async def test_a_lease_that_was_given_back_is_taken_at_the_next_look() -> None:
    stage = Stage()
    first, second = stage.candidate("first"), stage.candidate("second")
    await first.acquire()
    await second.step()
    await first.release()
    assert not first.is_leading()
    await second.step()
    assert (second.is_leading(), stage.server.holder) == (True, "second")
    assert stage.server.lease is not None and stage.server.lease["spec"]["leaseTransitions"] == 1


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
    stage.server.faults = ["lost"] * 100
    with pytest.raises(LostLease, match="not renewed in time"):
        await leader.keep()
    assert stage.now - began < 15


async def test_a_leader_outlives_a_lost_answer() -> None:
    stage = Stage()
    leader = stage.candidate("first")
    await leader.acquire()
    stage.server.faults = ["unheard"]
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
    assert stage.server.holder == "other"
    assert not paused.is_leading()
    with pytest.raises(LostLease):
        await paused.keep()
    await paused.release()
    assert stage.server.holder == "other"


async def test_a_deleted_lease_ends_its_holder() -> None:
    stage = Stage()
    leader = stage.candidate("first")
    await leader.acquire()
    stage.server.lease = None
    with pytest.raises(LostLease):
        await leader.keep()


async def test_a_label_that_somebody_adds_costs_nothing() -> None:
    stage = Stage()
    leader = stage.candidate("first")
    await leader.acquire()
    assert stage.server.lease is not None
    stage.server._store(stage.server.lease["spec"])
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
            st.sampled_from(["", "", "", "lost", "unheard"]),
            st.floats(min_value=0.0, max_value=9.0),
        ),
        max_size=60,
    )
)
def test_there_is_never_a_second_leader(doings: list[tuple[str, str, str, float]]) -> None:
    """Any order of looks, renewals, faults and pauses of three candidates."""

    async def play() -> None:
        stage = Stage()
        candidates = {name: stage.candidate(name) for name in "abc"}
        for name, doing, fault, seconds in doings:
            stage.server.faults = [fault, fault]
            await getattr(candidates[name], doing)()
            assert sum(c.is_leading() for c in candidates.values()) <= 1
            stage.now += seconds
            assert sum(c.is_leading() for c in candidates.values()) <= 1

    asyncio.run(play())


async def test_a_fenced_client_reads_and_does_not_write() -> None:
    class Fenced(FakeClient):
        async def _send(self, *arguments: Any, **options: Any) -> Any:
            raise AssertionError("sent")

    client = KubeClient(NoTransport()).fenced(lambda: False)
    client._send = Fenced()._send  # type: ignore[method-assign]
    for writing in (
        client.create(LEASES, {}, namespace="default"),
        client.patch(LEASES, "x", {}, type_="merge", namespace="default"),
        client.delete(LEASES, "x", namespace="default"),
    ):
        with pytest.raises(KubeError, match="leads no more"):
            await writing
    with pytest.raises(AssertionError, match="sent"):
        await client.get(LEASES, "x", namespace="default")


LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
