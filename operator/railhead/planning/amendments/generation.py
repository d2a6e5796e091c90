"""Acknowledges a changed spec: tools wait for status.observedGeneration, even if nothing else changes."""

from __future__ import annotations

from railhead.planning.observed import Observed
from railhead.planning.plan import Decision


def acknowledge_generation(observed: Observed, decision: Decision) -> Decision:
    """Adds a write of the same status, if nothing else is written: every write includes the generation."""
    is_acknowledged = observed.status.observed_generation == observed.generation
    if is_acknowledged or decision.wanted is not None:
        return decision
    return decision.with_status(observed.status)
