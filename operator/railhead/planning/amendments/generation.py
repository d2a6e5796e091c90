"""Acknowledges a changed spec even if nothing else changes: tools wait for status.observedGeneration."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.observed import Observed
from railhead.planning.plan import Decision
from railhead.planning.status_change import StatusChange


def acknowledge_generation(observed: Observed, decision: Decision) -> Decision:
    """Adds a status change without fields: every write includes the generation.

    Not before the job is deleted: the write would change the version that the delete names.
    """
    is_acknowledged = observed.status.observed_generation == observed.generation
    if is_acknowledged or decision.status is not None or decision.delete_job is not None:
        return decision
    return replace(decision, status=StatusChange())
