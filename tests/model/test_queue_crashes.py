"""The operator dies before and after each write of the life of a job in a queue: the job ends as without that.

By default it dies around every other write of the job's Workload, before one and after the next. `RAILHEAD_FAULTS=all`
tries both at all writes, and lost answers.
"""

from __future__ import annotations

import pytest

from tests.model.faults import CODES, CRASH_AFTER, CRASH_BEFORE, LOST_ANSWER, Call, Fault, Faults
from tests.model.kueue import WORKLOADS
from tests.model.play import Scenario, play
from tests.model.queue_scenarios import QUEUED
from tests.model.single_faults import ALL, at, check_each_fault
from tests.tried import Tried


def choose_tries(written: list[Call]) -> list[tuple[int, Fault]]:
    if ALL:
        return [(call.number, fault) for call in written for fault in (CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER)]
    numbers = [call.number for call in written if call.plural == WORKLOADS]
    # The first one or the second one is left out, as the scenario's number of writes is odd or even.
    if len(numbers) > 1:
        numbers = numbers[len(written) % 2 :: 2]
    return [(number, (CRASH_BEFORE, CRASH_AFTER)[place % 2]) for place, number in enumerate(numbers)]


@pytest.mark.parametrize("scenario", QUEUED, ids=lambda s: s.name)
async def test_an_operator_that_dies_at_any_write_does_not_change_the_outcome(scenario: Scenario, tried: Tried) -> None:
    await check_each_fault(scenario, choose_tries, tried)


@pytest.mark.parametrize("code", CODES)
async def test_a_refused_workload_is_asked_for_again_after_a_pause(code: int) -> None:
    """Kueue's webhook refuses it, for example. The operator reports the refusal once, and writes nothing else."""
    scenario, without = QUEUED[0], Faults()
    await play(scenario, without)
    [number] = [call.number for call in without.written if (call.verb, call.plural) == ("create", WORKLOADS)]
    faults = at(number, code)
    await play(scenario, faults)
    assert len(faults.done) == 1 and faults.writes - without.writes < 10
