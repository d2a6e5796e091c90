"""The writes of every scenario fail in every way: same end, creates and deletes as without the fault.

Two faults are tried at the first write of each kind: the operator dies, before or after it in turn, and the request
fails, in one of three ways in turn. A scenario may repeat a write dozens of times, such as a create that a quota
rejects: at one of the others, in another place for each kind, one fault is tried. `RAILHEAD_FAULTS=all`, as in
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

AROUND = 3  # writes before and after a removal
by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)


def choose_tries(written: list[Call]) -> list[tuple[int, Fault]]:
    """Numbers of writes, each with a fault: two at the first write of each kind, one at one of the others."""
    assert len(written) > 5
    kinds: dict[tuple[str, str], list[int]] = {}
    for call in written:
        kinds.setdefault((call.verb, call.plural), []).append(call.number)
    tries = []
    # Which of the later writes is tried differs between the kinds, and between scenarios by their number of writes.
    for place, numbers in enumerate(kinds.values(), start=len(written)):
        if ALL:
            tries += [(number, fault) for number in numbers for fault in list_faults(number)]
            continue
        tries += [(numbers[0], fault) for fault in choose_two(numbers[0])]
        others = numbers[1:]
        if others:
            number = others[place % len(others)]
            tries.append((number, list_faults(number)[number % 5]))
    return sorted(tries, key=lambda each: each[0])


def list_faults(number: int) -> tuple[Fault, ...]:
    return CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER, NEVER_SENT, CODES[number % len(CODES)]


def choose_two(number: int) -> tuple[Fault, Fault]:
    """Returns a crash, and a request that fails while the operator lives."""
    crash_before, crash_after, *failures = list_faults(number)
    return (crash_before, crash_after)[number % 2], failures[number % 3]


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
    tries = [(number, fault) for number, fault in choose_tries(without.written) if fault in losses]
    for number, fault in tries:
        await play(HELD, at(number, fault))
    tried("faults of the model, one at a time", len(tries))


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if "upgraded" in each.name], ids=lambda s: s.name)
async def test_no_unused_driver_is_left(scenario: Scenario) -> None:
    check_old_drivers(await play(scenario))
