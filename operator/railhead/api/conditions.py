"""Conditions of a TrainJob, in the form of metav1.Condition.

`Reconciling` and `Stalled` stand in the list only while they are True; a failed job has
both `Failed` and `Stalled`, because generic tools know only the latter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from railhead.api.base import StatusModel

RUNNING = "Running"
COMPLETE = "Complete"
FAILED = "Failed"
RECONCILING = "Reconciling"
STALLED = "Stalled"
SUSPENDED = "Suspended"
RESUMABLE = "Resumable"
CHECKPOINT_FALLBACK = "CheckpointFallback"
ORDER = (RECONCILING, STALLED, RUNNING, SUSPENDED, COMPLETE, FAILED, RESUMABLE, CHECKPOINT_FALLBACK)


class Condition(StatusModel):
    """One condition (metav1.Condition)."""

    type: str = Field(max_length=316, description="CamelCase name of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: str = Field(max_length=128, description="CamelCase word for the last change.")
    message: str = Field(default="", max_length=4096, description="A sentence for people.")
    observed_generation: int = Field(
        default=0, description="Generation that the condition is about.", json_schema_extra={"format": "int64"}
    )
    last_transition_time: str = Field(default="", max_length=64, description="When the status last changed (RFC 3339).")


def merge_conditions(old: Iterable[Condition], new: Iterable[Condition]) -> list[Condition]:
    """The new conditions; each keeps its transition time when its status did not change.

    An old condition that the new ones do not name is gone.
    """
    before = {c.type: c for c in old}
    merged = []
    for condition in new:
        earlier = before.get(condition.type)
        if earlier is not None and earlier.status == condition.status and earlier.last_transition_time:
            condition = condition.model_copy(update={"last_transition_time": earlier.last_transition_time})
        merged.append(condition)
    return sorted(merged, key=lambda c: ORDER.index(c.type) if c.type in ORDER else len(ORDER))
