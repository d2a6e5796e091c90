"""The writes of every scenario fail in every way: same end, creates and deletes as without the fault.

The operator dies before or after the write, or the request fails in one of three ways. Two or three of the five are
tried at each write of a job that nothing disturbs, since all scenarios begin as that one does. In the others, one is
tried at one write of every other kind, of other kinds and another one in each scenario. `RAILHEAD_FAULTS=all`, as in
`make test-all`, tries all.
"""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.model.faults import CODES, CRASH_AFTER, CRASH_BEFORE, LOST_ANSWER, NEVER_SENT, Call, Fault, Faults
from tests.model.oracles import check_old_drivers
from tests.model.play import Scenario, play
from tests.model.scenarios import CHANGED, DENIED, HELD, SCENARIOS
from tests.model.single_faults import ALL, at, check_each_fault
from tests.tried import Tried

# What so few scenarios write that each of them tries all faults.
RARE = (("create", "podgroups"), ("delete", "podgroups"), ("delete", "trainjobs"))
AROUND = 3 if ALL else 1  # writes before and after a removal
by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)


def choose_tries(written: list[Call]) -> list[tuple[int, Fault]]:
    """Numbers of writes, each with a fault: one write of every other kind, or with ALL each fault at each one."""
    assert len(written) > 5
    if ALL:
        return try_all(written)
    kinds: dict[tuple[str, str], list[int]] = {}
    for call in written:
        kinds.setdefault((call.verb, call.plural), []).append(call.number)
    tries = []
    # Which kinds, which write and which fault it is differs between scenarios by their number of writes.
    for place, (kind, numbers) in enumerate(kinds.items(), start=len(written)):
        if place % 2 and kind not in RARE:
            continue
        number = numbers[place % len(numbers)]
        faults = list_faults(number)
        if kind not in RARE:
            faults = (faults[place // 2 % 5],)
        tries += [(number, fault) for fault in faults]
    return sorted(tries, key=lambda each: each[0])


def try_all(written: list[Call]) -> list[tuple[int, Fault]]:
    return [(call.number, fault) for call in written for fault in list_faults(call.number)]


def try_every_other(written: list[Call]) -> list[tuple[int, Fault]]:
    """Numbers of all writes, each with two or three faults in turn; with ALL each fault at each write."""
    if ALL:
        return try_all(written)
    return [(call.number, fault) for call in written for fault in list_faults(call.number)[call.number % 2 :: 2]]


def list_faults(number: int) -> tuple[Fault, ...]:
    return CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER, NEVER_SENT, CODES[number % len(CODES)]


async def test_no_fault_at_any_write_of_a_job_that_nothing_disturbs_changes_the_outcome(tried: Tried) -> None:
    await check_each_fault(SCENARIOS[0], try_every_other, tried)


@by_name
async def test_a_single_fault_at_any_write_does_not_change_the_outcome(scenario: Scenario, tried: Tried) -> None:
    await check_each_fault(scenario, choose_tries, tried)


def choose_crashes(written: list[Call]) -> list[tuple[int, Fault]]:
    """At the removal of each object that is no pod, and at the writes around it.

    The operator dies before one of these writes and after the next one, in turn; with ALL before and after each.
    """
    removals = [call.number for call in written if call.verb == "delete" and call.plural in ("configmaps", "podgroups")]
    near_numbers = {number + step for number in removals for step in range(-AROUND, AROUND + 1)}
    near = [call.number for call in written if call.number in near_numbers]
    crashes = (CRASH_BEFORE, CRASH_AFTER)
    if ALL:
        return [(number, crash) for number in near for crash in crashes]
    return list(zip(near, cycle(crashes), strict=False))


@pytest.mark.parametrize("scenario", CHANGED, ids=lambda s: s.name)
async def test_an_operator_that_dies_at_any_write_leaves_nothing_of_the_attempt_before(
    scenario: Scenario, tried: Tried
) -> None:
    await check_each_fault(scenario, choose_crashes, tried)


async def test_a_denied_delete_of_an_old_input_holds_no_attempt_and_is_reported_and_tried_again() -> None:
    world = await play(DENIED)
    assert not [each for each in world.status()["conditions"] if each["type"] == "DeleteDenied"]


async def test_no_fault_keeps_the_pods_of_a_deleted_job_that_a_finalizer_keeps(tried: Tried) -> None:
    without = Faults()
    await play(HELD, without)
    losses = (CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER)
    numbers = [call.number for call in without.written]
    tries = list(zip(numbers, cycle(losses), strict=False))
    if ALL:
        tries = [(number, loss) for number in numbers for loss in losses]
    for number, fault in tries:
        await play(HELD, at(number, fault))
    tried("faults of the model, one at a time", len(tries))


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if "upgraded" in each.name], ids=lambda s: s.name)
async def test_no_unused_driver_is_left(scenario: Scenario) -> None:
    check_old_drivers(await play(scenario))
