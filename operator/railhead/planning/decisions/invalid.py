"""A spec that was stored under another schema."""

from __future__ import annotations

from railhead.api import conditions as types
from railhead.api.job import InvalidSpec
from railhead.planning.conditions import make_condition, stand
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, Event
from railhead.planning.status_write import changes_anything


def decide_invalid(observed: Observed, error: InvalidSpec) -> Decision:
    """Reports it in the status, and touches nothing else."""
    status = stand(observed, make_condition(observed, types.STALLED, reason="InvalidSpec", message=str(error)))
    is_news = changes_anything(observed, status)
    return Decision(status=status, events=(Event("Warning", "InvalidSpec", str(error)),) if is_news else ())
