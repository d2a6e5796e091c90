"""Plays a scenario with one fault at one of its writes, and compares its end with that of the same without faults."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.model.faults import Call, Fault, Faults
from tests.model.play import Scenario, play, summarize
from tests.tried import Tried

ALL = os.environ.get("RAILHEAD_FAULTS") == "all"
Choose = Callable[[list[Call]], list[tuple[int, Fault]]]  # of the writes without a fault: their numbers, each with one


def at(number: int, fault: Fault) -> Faults:
    """This fault at this write, and none elsewhere."""
    return Faults(lambda call: fault if call.is_write and call.number == number else None)


async def check_each_fault(scenario: Scenario, choose_tries: Choose, tried: Tried) -> None:
    """Raises AssertionError if a fault changes the outcome, or if there is nothing to try."""
    without = Faults()
    wanted = summarize(await play(scenario, without))
    tries = choose_tries(without.written)
    assert tries, f"{scenario.name}: no write is tried"
    for number, fault in tries:
        faults = at(number, fault)
        attempt = f"{scenario.name}: {fault} at write {number}"
        try:
            found = summarize(await play(scenario, faults))
        except AssertionError as error:
            raise AssertionError(f"{attempt}: {error}") from error
        assert len(faults.done) == 1, attempt
        assert found == wanted, f"{attempt}: {found} instead of {wanted}"
    tried("faults of the model, one at a time", len(tries))
