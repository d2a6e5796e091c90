"""Acknowledges a changed spec even if nothing else changes: tools wait for status.observedGeneration."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.observed import Observed
from railhead.planning.plan import Decision
from railhead.planning.status_change import StatusChange


def acknowledge_generation(observed: Observed, decision: Decision) -> Decision:
    """Adds a status change without fields: every write includes the generation."""
    if decision.status is not None or observed.status.observed_generation == observed.generation:
        return decision
    return replace(decision, status=StatusChange())
