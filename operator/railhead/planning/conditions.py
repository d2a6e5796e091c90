"""Conditions as decisions set them. A new state replaces all state conditions of the job (`STANDING`)."""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.api.conditions import Condition
from railhead.api.status import Waiting
from railhead.contract.times import format_time
from railhead.planning.observed import Observed
from railhead.planning.status_change import StatusChange

# Mutually exclusive, except for those that one decision sets together; warnings are independent of them.
STANDING = frozenset({types.RECONCILING, types.STALLED, types.RUNNING, *types.ALWAYS_PRESENT})


def make_condition(observed: Observed, type_: str, *, reason: str, message: str, is_true: bool = True) -> Condition:
    return Condition(
        type=type_,
        status="True" if is_true else "False",
        reason=reason[:128],
        message=message[:4096],
        observed_generation=observed.generation,
        last_transition_time=format_time(observed.now),
    )


def stand(observed: Observed, *conditions: Condition) -> StatusChange:
    """The job's state now: these conditions, no other of `STANDING`, and the rest of `ALWAYS_PRESENT` as False."""
    absent = (
        make_condition(observed, type_, reason=f"Not{type_}", message="", is_true=False)
        for type_ in types.ALWAYS_PRESENT
    )
    return StatusChange().without_conditions(STANDING).with_conditions(*absent).with_conditions(*conditions)


def stand_still(observed: Observed, type_: str, *, reason: str, message: str) -> StatusChange:
    """The condition that explains why training does not run, together with Running=False."""
    return stand(
        observed,
        make_condition(observed, type_, reason=reason, message=message),
        make_condition(observed, types.RUNNING, reason=reason, message=message, is_true=False),
    )


def await_again(observed: Observed, change: StatusChange) -> StatusChange:
    """Adds that the job waits for training again since now; a job that already waits keeps its start time."""
    if observed.status.waiting is not None:
        return change
    return replace(change, waiting=Waiting(since=format_time(observed.now), again=True))
