"""Electors for one Lease of the model's API server, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.controller.leadership.elector import Alone, Elector, make_candidate
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError, RetryAfter
from railhead.kube.kinds import LEASE
from tests.model.faults import LOST_ANSWER, NEVER_SENT
from tests.unit.controller.leadership.stage import NEVER, PLACE, TIMING, Stage
from tests.unit.controller.leadership.virtual_time import play
from tests.unit.kube.no_transport import NoTransport

PERIOD = TIMING.period_seconds
Scene = Callable[[Stage], Awaitable[None]]


def run(scene: Scene) -> None:
    async def on_stage() -> None:
        stage = Stage()
        await scene(stage)
        await stage.end()

    play(on_stage())


async def lead(stage: Stage, elector: Elector) -> None:
    stage.start(elector)
    await elector.wait_lead()


def test_the_first_leads_and_the_second_waits() -> None:
    async def scene(stage: Stage) -> None:
        first, second = stage.candidate("first"), stage.candidate("second")
        await lead(stage, first)
        stage.start(second)
        await asyncio.sleep(60)
        assert (first.is_leading(), second.is_leading(), stage.holder) == (True, False, "first")

    run(scene)


def test_a_released_lease_is_taken_within_a_period() -> None:
    async def scene(stage: Stage) -> None:
        first, second = stage.candidate("first"), stage.candidate("second")
        await lead(stage, first)
        stage.start(second)
        await asyncio.sleep(5)
        await stage.kill(first)
        await first.release()
        assert not first.is_leading()
        began = stage.now
        await second.wait_lead()
        assert (stage.holder, stage.lease["leaseTransitions"]) == ("second", 1)
        assert stage.now - began <= PERIOD

    run(scene)


def test_a_renewal_in_flight_does_not_prevent_the_release() -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        await lead(stage, leader)
        stage.slow_down(1, 1)
        await asyncio.sleep(PERIOD + 0.5)
        await stage.kill(leader)
        await leader.release()
        await asyncio.sleep(10)
        assert stage.holder is None

    run(scene)


def test_a_dead_holders_lease_is_taken_when_it_expires() -> None:
    async def scene(stage: Stage) -> None:
        first, second = stage.candidate("first"), stage.candidate("second")
        await lead(stage, first)
        await stage.kill(first)
        began = stage.now
        await lead(stage, second)
        assert 15 < stage.now - began <= 15 + PERIOD
        assert not first.is_leading()

    run(scene)


@pytest.mark.parametrize(("there", "back"), [(2.1, 0), (0, 2.1), (5, 0), (0, 5), (2.5, 2.5), (4, 3.5)])
def test_a_slow_api_server_does_not_cost_the_lead(there: float, back: float) -> None:
    async def scene(stage: Stage) -> None:
        leader, other = stage.candidate("first"), stage.candidate("other")
        await lead(stage, leader)
        stage.slow_down(there, back)
        stage.start(other)
        assert await stage.watch(leader, 60) == 60
        assert not other.is_leading()

    run(scene)


@pytest.mark.parametrize("stall", [4.0, 7.0])
def test_an_api_server_that_works_only_for_moments_does_not_cost_the_lead(stall: float) -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        await lead(stage, leader)
        stage.serve_only(lambda at: at % (stall + 0.15) > stall)
        assert await stage.watch(leader, 8 * (stall + 0.15)) == pytest.approx(8 * (stall + 0.15), abs=0.05)

    run(scene)


def test_unanswered_requests_do_not_delay_others() -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        await lead(stage, leader)
        delays = itertools.cycle([(0.0, 0.0), NEVER, NEVER, NEVER])
        stage.delay = lambda: next(delays)
        assert await stage.watch(leader, 60) == 60

    run(scene)


def test_a_leader_without_responses_stops_in_time_and_leads_again_when_they_arrive() -> None:
    async def scene(stage: Stage) -> None:
        leader, other = stage.candidate("first"), stage.candidate("other")
        await lead(stage, leader)
        down = stage.now + 0.01, stage.now + 20
        stage.serve_only(lambda at: not down[0] <= at < down[1])
        stage.start(other)
        await leader.wait_loss()
        assert stage.now - down[0] < 15 - PERIOD
        assert not leader.is_leading()
        await leader.wait_lead()
        assert stage.now - down[1] < 0.1
        assert (stage.holder, stage.lease["leaseTransitions"]) == ("first", 0)
        assert await stage.watch(leader, 60) == 60

    run(scene)


def test_a_lead_that_was_lost_and_regained_meanwhile_counts_as_lost() -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        await leader.step()
        loss = asyncio.create_task(leader.wait_loss())
        await asyncio.sleep(5)
        assert not loss.done()
        stage.api.remove(PLACE)
        await leader.step()  # finds that out
        await leader.step()
        assert leader.is_leading()
        await asyncio.wait_for(loss, 0.1)

    run(scene)


def test_a_leader_survives_lost_responses() -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        await lead(stage, leader)
        stage.fail(LOST_ANSWER, NEVER_SENT, LOST_ANSWER)
        assert await stage.watch(leader, 30) == 30

    run(scene)


def test_a_candidate_recognizes_the_lease_that_it_took_without_a_response() -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        stage.fail(None, LOST_ANSWER)
        await lead(stage, leader)
        assert stage.now <= PERIOD
        assert (stage.holder, stage.lease["leaseTransitions"]) == ("first", 0)

    run(scene)


def test_a_process_paused_for_long_notices_at_once_releases_nothing_and_waits_its_turn() -> None:
    async def scene(stage: Stage) -> None:
        paused, other = stage.candidate("paused", pod="pod_"), stage.candidate("other")
        await lead(stage, paused)
        await stage.kill(paused)  # stopped: it does nothing until its next step
        await lead(stage, other)
        assert not paused.is_leading()
        stage.start(paused)
        await asyncio.sleep(30)
        assert (paused.is_leading(), other.is_leading(), stage.holder) == (False, True, "other")
        await paused.release()
        assert stage.holder == "other"
        await stage.kill(other)
        await other.release()
        await paused.wait_lead()
        assert stage.lease["leaseTransitions"] == 2

    run(scene)


def test_a_deleted_lease_is_lost_and_created_again() -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        await lead(stage, leader)
        stage.api.remove(PLACE)
        await leader.wait_loss()
        assert not leader.is_leading()
        await leader.wait_lead()
        assert stage.holder == "first"

    run(scene)


def test_a_label_added_by_a_user_costs_nothing() -> None:
    async def scene(stage: Stage) -> None:
        leader = stage.candidate("first")
        await lead(stage, leader)
        stage.api.patch(PLACE, {"metadata": {"labels": {"team": "a"}}})
        assert await stage.watch(leader, 30) == 30

    run(scene)


def test_the_next_process_of_a_pod_takes_over_at_once() -> None:
    async def scene(stage: Stage) -> None:
        first, second = stage.candidate("1", pod="host_uid_"), stage.candidate("2", pod="host_uid_")
        await lead(stage, first)
        await stage.kill(first)
        began = stage.now
        await lead(stage, second)
        assert stage.now == began
        assert stage.holder == "host_uid_2"

    run(scene)


def test_of_two_processes_in_one_pod_the_later_one_leads() -> None:
    async def scene(stage: Stage) -> None:
        first, second = stage.candidate("1", pod="host_uid_"), stage.candidate("2", pod="host_uid_")
        await lead(stage, first)
        await lead(stage, second)
        await asyncio.sleep(PERIOD)
        assert await stage.watch(second, 60) == 60
        assert not first.is_leading()

    run(scene)


def test_identities_are_unique_and_only_the_uid_relates_processes_of_a_pod() -> None:
    one, two = make_candidate(""), make_candidate("")
    assert one.identity != two.identity
    assert one.predecessors == ""
    old, new = make_candidate("uid-1"), make_candidate("uid-1")
    assert old.identity != new.identity
    assert old.identity.startswith(new.predecessors)
    assert not make_candidate("uid-11").identity.startswith(new.predecessors)
    assert not one.identity.startswith(new.predecessors)


async def test_without_election_the_operator_leads() -> None:
    alone = Alone()
    assert alone.is_leading()
    await alone.wait_lead()
    await alone.release()
    for endless in (alone.run(), alone.wait_loss()):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(endless, 0)


SPEEDS = st.sampled_from([(0.0, 0.0)] * 4 + [(1.0, 0.0), (0.0, 4.0), (9.0, 0.0), (0.0, 9.0), (4.0, 4.0), (9.0, 4.0)])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["nothing", "cut", "heal", "restart", "end"]),
            st.sampled_from([None, None, None, NEVER_SENT, LOST_ANSWER]),
            SPEEDS,
            st.sampled_from([0.5, 3.0, 9.0, 17.0]),
        ),
        max_size=10,
    )
)
def test_there_is_never_a_second_leader(
    doings: list[tuple[str, str, str | None, tuple[float, float], float]],
) -> None:
    """Three pods that lose and regain the API server, and whose processes die or exit and start again."""

    async def scene(stage: Stage) -> None:
        living = {pod: stage.candidate("0", pod=pod) for pod in "abc"}
        stage.start(*living.values())
        for number, (pod, doing, fault, delay, seconds) in enumerate(doings, start=1):
            stage.fail(fault, fault)
            stage.slow_down(*delay)
            if doing == "cut":
                stage.cut_off = {each for each, elector in living.items() if elector.is_leading()}
            if doing == "heal":
                stage.cut_off = set()
            if doing in ("restart", "end"):
                old = living[pod]
                await stage.kill(old)
                if doing == "end":
                    await old.release()
                living[pod] = stage.candidate(str(number), pod=pod)
                stage.start(living[pod])
            until = stage.now + seconds
            while stage.now < until:
                assert sum(each.is_leading() for each in living.values()) <= 1
                await asyncio.sleep(0.25)

    run(scene)


async def test_a_fenced_client_reads_but_does_not_write() -> None:
    async def send(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("sent")

    client = KubeClient(NoTransport()).fenced(lambda: False)
    client._send = send  # type: ignore[method-assign]
    for writing in (
        client.create(LEASE, {}, namespace="default"),
        client.patch(LEASE, "x", {}, type_="merge", namespace="default"),
        client.delete(LEASE, "x", namespace="default"),
    ):
        with pytest.raises(KubeError, match="is not the leader") as raised:
            await writing
        assert isinstance(raised.value, RetryAfter)
    with pytest.raises(AssertionError, match="sent"):
        await client.get(LEASE, "x", namespace="default")
