"""Electors for one Lease of the model's API server, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.controller.leadership import Elector, Leadership, make_candidate
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError, RetryAfter
from railhead.kube.kinds import LEASE
from railhead.resources.base import CommonMetadata
from tests.model.faults import LOST_ANSWER, NEVER_SENT
from tests.unit.controller.leadership.election import NEVER, PLACE, TIMING, Election
from tests.unit.controller.leadership.virtual_time import run_in_virtual_time
from tests.unit.kube.no_transport import NoTransport

PERIOD = TIMING.period_seconds
Scenario = Callable[[Election], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def run_scenario() -> None:
        election = Election()
        await scenario(election)
        await election.end()

    run_in_virtual_time(run_scenario())


async def lead(election: Election, elector: Elector) -> None:
    election.start(elector)
    await elector.wait_lead()


def test_the_first_candidate_leads_and_the_second_waits() -> None:
    async def scenario(election: Election) -> None:
        first, second = election.candidate("first"), election.candidate("second")
        await lead(election, first)
        election.start(second)
        await asyncio.sleep(60)
        assert (first.is_leading(), second.is_leading(), election.holder) == (True, False, "first")

    run(scenario)


def test_the_lease_has_the_labels_and_annotations_that_the_cluster_demands() -> None:
    async def scenario(election: Election) -> None:
        elector = election.candidate("first")
        elector.common = CommonMetadata({"team": "ml"}, {"example.com/owner": "me"})
        await lead(election, elector)
        metadata = election.api.objects[PLACE]["metadata"]
        assert metadata["labels"].items() >= {"team": "ml", "app.kubernetes.io/name": "railhead"}.items()
        assert metadata["annotations"] == {"example.com/owner": "me"}

    run(scenario)


def test_a_released_lease_is_taken_within_a_period() -> None:
    async def scenario(election: Election) -> None:
        first, second = election.candidate("first"), election.candidate("second")
        await lead(election, first)
        election.start(second)
        await asyncio.sleep(5)
        await election.kill(first)
        await first.release()
        assert not first.is_leading()
        began = election.now
        await second.wait_lead()
        assert (election.holder, election.lease["leaseTransitions"]) == ("second", 1)
        assert election.now - began <= PERIOD

    run(scenario)


def test_a_renewal_in_flight_does_not_prevent_the_release() -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        await lead(election, leader)
        election.slow_down(1, 1)
        await asyncio.sleep(PERIOD + 0.5)
        await election.kill(leader)
        await leader.release()
        await asyncio.sleep(10)
        assert election.holder is None

    run(scenario)


def test_a_dead_holders_lease_is_taken_when_it_expires() -> None:
    async def scenario(election: Election) -> None:
        first, second = election.candidate("first"), election.candidate("second")
        await lead(election, first)
        await election.kill(first)
        began = election.now
        await lead(election, second)
        assert 15 < election.now - began <= 15 + PERIOD
        assert not first.is_leading()

    run(scenario)


@pytest.mark.parametrize(("there", "back"), [(2.1, 0), (0, 2.1), (5, 0), (0, 5), (2.5, 2.5), (4, 3.5)])
def test_a_slow_api_server_does_not_cost_the_lead(there: float, back: float) -> None:
    async def scenario(election: Election) -> None:
        leader, other = election.candidate("first"), election.candidate("other")
        await lead(election, leader)
        election.slow_down(there, back)
        election.start(other)
        assert await election.watch(leader, 60) == 60
        assert not other.is_leading()

    run(scenario)


@pytest.mark.parametrize("stall", [4.0, 7.0])
def test_an_api_server_that_works_only_for_moments_does_not_cost_the_lead(stall: float) -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        await lead(election, leader)
        election.serve_only(lambda at: at % (stall + 0.15) > stall)
        assert await election.watch(leader, 8 * (stall + 0.15)) == pytest.approx(8 * (stall + 0.15), abs=0.05)

    run(scenario)


def test_unanswered_requests_do_not_delay_others() -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        await lead(election, leader)
        delays = itertools.cycle([(0.0, 0.0), NEVER, NEVER, NEVER])
        election.delay = lambda: next(delays)
        assert await election.watch(leader, 60) == 60

    run(scenario)


def test_a_leader_without_responses_stops_in_time_and_leads_again_when_they_arrive() -> None:
    async def scenario(election: Election) -> None:
        leader, other = election.candidate("first"), election.candidate("other")
        await lead(election, leader)
        down = election.now + 0.01, election.now + 20
        election.serve_only(lambda at: not down[0] <= at < down[1])
        election.start(other)
        await leader.wait_loss()
        assert election.now - down[0] < 15 - PERIOD
        assert not leader.is_leading()
        await leader.wait_lead()
        assert election.now - down[1] < 0.1
        assert (election.holder, election.lease["leaseTransitions"]) == ("first", 0)
        assert await election.watch(leader, 60) == 60

    run(scenario)


def test_a_lead_that_was_lost_and_regained_meanwhile_counts_as_lost() -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        await leader.step()
        loss = asyncio.create_task(leader.wait_loss())
        await asyncio.sleep(5)
        assert not loss.done()
        election.api.remove(PLACE)
        await leader.step()  # notices the loss
        await leader.step()
        assert leader.is_leading()
        await asyncio.wait_for(loss, 0.1)

    run(scenario)


def test_a_leader_survives_lost_responses() -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        await lead(election, leader)
        election.fail(LOST_ANSWER, NEVER_SENT, LOST_ANSWER)
        assert await election.watch(leader, 30) == 30

    run(scenario)


def test_a_candidate_recognizes_the_lease_that_it_took_without_a_response() -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        election.fail(None, LOST_ANSWER)
        await lead(election, leader)
        assert election.now <= PERIOD
        assert (election.holder, election.lease["leaseTransitions"]) == ("first", 0)

    run(scenario)


def test_a_process_paused_for_long_notices_at_once_releases_nothing_and_waits_its_turn() -> None:
    async def scenario(election: Election) -> None:
        paused, other = election.candidate("paused", pod="pod_"), election.candidate("other")
        await lead(election, paused)
        await election.kill(paused)  # stopped: it does nothing until its next step
        await lead(election, other)
        assert not paused.is_leading()
        election.start(paused)
        await asyncio.sleep(30)
        assert (paused.is_leading(), other.is_leading(), election.holder) == (False, True, "other")
        await paused.release()
        assert election.holder == "other"
        await election.kill(other)
        await other.release()
        await paused.wait_lead()
        assert election.lease["leaseTransitions"] == 2

    run(scenario)


def test_a_deleted_lease_is_lost_and_created_again() -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        await lead(election, leader)
        election.api.remove(PLACE)
        await leader.wait_loss()
        assert not leader.is_leading()
        await leader.wait_lead()
        assert election.holder == "first"

    run(scenario)


def test_a_label_added_by_a_user_costs_nothing() -> None:
    async def scenario(election: Election) -> None:
        leader = election.candidate("first")
        await lead(election, leader)
        election.api.patch(PLACE, {"metadata": {"labels": {"team": "a"}}})
        assert await election.watch(leader, 30) == 30

    run(scenario)


def test_the_next_process_of_a_pod_takes_over_at_once() -> None:
    async def scenario(election: Election) -> None:
        first, second = election.candidate("1", pod="host_uid_"), election.candidate("2", pod="host_uid_")
        await lead(election, first)
        await election.kill(first)
        began = election.now
        await lead(election, second)
        assert election.now == began
        assert election.holder == "host_uid_2"

    run(scenario)


def test_of_two_processes_in_one_pod_the_later_one_leads() -> None:
    async def scenario(election: Election) -> None:
        first, second = election.candidate("1", pod="host_uid_"), election.candidate("2", pod="host_uid_")
        await lead(election, first)
        await lead(election, second)
        await asyncio.sleep(PERIOD)
        assert await election.watch(second, 60) == 60
        assert not first.is_leading()

    run(scenario)


def test_servers_are_unique_and_only_the_uid_relates_processes_of_a_pod() -> None:
    one, two = make_candidate(""), make_candidate("")
    assert one.identity != two.identity
    assert one.predecessors == ""
    old, new = make_candidate("uid-1"), make_candidate("uid-1")
    assert old.identity != new.identity
    assert old.identity.startswith(new.predecessors)
    assert not make_candidate("uid-11").identity.startswith(new.predecessors)
    assert not one.identity.startswith(new.predecessors)


async def test_without_election_the_operator_leads() -> None:
    alone = Leadership()
    assert alone.is_leading()
    await alone.wait_lead()
    await alone.release()
    for endless in (alone.run(), alone.wait_loss()):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(endless, 0)


SPEEDS = st.sampled_from([(0.0, 0.0)] * 4 + [(1.0, 0.0), (0.0, 4.0), (9.0, 0.0), (0.0, 9.0), (4.0, 4.0), (9.0, 4.0)])


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
    events: list[tuple[str, str, str | None, tuple[float, float], float]],
) -> None:
    """Three pods that lose and regain the API server, and whose processes die or exit and start again."""

    async def scenario(election: Election) -> None:
        living = {pod: election.candidate("0", pod=pod) for pod in "abc"}
        election.start(*living.values())
        for number, (pod, event, fault, delay, seconds) in enumerate(events, start=1):
            election.fail(fault, fault)
            election.slow_down(*delay)
            if event == "cut":
                election.cut_off = {each for each, elector in living.items() if elector.is_leading()}
            if event == "heal":
                election.cut_off = set()
            if event in ("restart", "end"):
                old = living[pod]
                await election.kill(old)
                if event == "end":
                    await old.release()
                living[pod] = election.candidate(str(number), pod=pod)
                election.start(living[pod])
            until = election.now + seconds
            while election.now < until:
                assert sum(each.is_leading() for each in living.values()) <= 1
                await asyncio.sleep(0.25)

    run(scenario)


async def test_a_fenced_client_reads_but_does_not_write() -> None:
    client = KubeClient(NoTransport()).fenced(lambda: False)
    for writing in (
        client.create(LEASE, {}, namespace="default"),
        client.patch(LEASE, "x", {}, namespace="default"),
        client.delete(LEASE, "x", namespace="default"),
    ):
        with pytest.raises(KubeError, match="is not the leader") as raised:
            await writing
        assert isinstance(raised.value, RetryAfter)
    with pytest.raises(AssertionError, match="got past the fake client"):
        await client.get(LEASE, "x", namespace="default")
