"""Acknowledges a changed spec: tools wait for status.observedGeneration, even if nothing else changes."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.observed import Observed
from railhead.planning.plan import Decision
from railhead.planning.status_change import StatusChange


def acknowledge_generation(observed: Observed, decision: Decision) -> Decision:
    """Adds a status change without fields, if nothing else is written: every write includes the generation."""
    is_acknowledged = observed.status.observed_generation == observed.generation
    if is_acknowledged or decision.status is not None:
        return decision
    return replace(decision, status=StatusChange())
