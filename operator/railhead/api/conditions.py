"""Conditions of a TrainJob, in the form of metav1.Condition.

`Suspended`, `Complete` and `Failed` are in the list once the operator has seen the job.
`Reconciling` and `Stalled` are in it only while they are True, as kstatus wants it; a failed
job has both `Failed` and `Stalled`, because generic tools know only the latter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from pydantic import Field

from railhead.api.model import StatusModel, message_field, time_field

RUNNING = "Running"
COMPLETE = "Complete"
FAILED = "Failed"
RECONCILING = "Reconciling"
STALLED = "Stalled"
SUSPENDED = "Suspended"
RESUMABLE = "Resumable"
CHECKPOINT_FALLBACK = "CheckpointFallback"
END_NOTICE = "EndNotice"
RAY_TESTED = "RayTested"
STORAGE_UNAVAILABLE = "StorageUnavailable"
HANG_SUSPECTED = "HangSuspected"
METRIC_RULE_FIRED = "MetricRuleFired"
DELETE_DENIED = "DeleteDenied"
QUEUE_UNREACHABLE = "QueueUnreachable"
FOREIGN_PODS = "ForeignPods"
CPU_LIMITED = "CPULimited"
ALWAYS_PRESENT = (SUSPENDED, COMPLETE, FAILED)
MAX_CONDITIONS = 32
ORDER = (
    *(RECONCILING, STALLED, RUNNING, SUSPENDED, COMPLETE, FAILED),
    *(RESUMABLE, CHECKPOINT_FALLBACK, STORAGE_UNAVAILABLE, HANG_SUSPECTED, METRIC_RULE_FIRED, END_NOTICE, RAY_TESTED),
    *(DELETE_DENIED, QUEUE_UNREACHABLE, FOREIGN_PODS, CPU_LIMITED),
)


class Condition(StatusModel):
    """One condition (metav1.Condition)."""

    type: str = Field(max_length=316, description="CamelCase name of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: str = Field(max_length=128, description="CamelCase reason for the last change.")
    message: str = message_field("Human-readable message.", 4096)
    observed_generation: int = Field(
        default=0, description="Generation that the condition was set for.", json_schema_extra={"format": "int64"}
    )
    last_transition_time: str | None = time_field("When the status last changed.")

    @property
    def is_true(self) -> bool:
        return self.status == "True"


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def merge_conditions(
    old: Iterable[Condition], new: Iterable[Condition], *, remove: Collection[str] = ()
) -> list[Condition]:
    """Returns the old conditions, replaced by the new ones of the same type, without the types to remove.

    A condition keeps its transition time while its status does not change. Ours come first, in `ORDER`; those of
    other controllers follow in their order, up to `MAX_CONDITIONS`.
    """
    before = {condition.type: condition for condition in old}
    merged = {type_: condition for type_, condition in before.items() if type_ not in remove}
    for condition in new:
        earlier = before.get(condition.type)
        if earlier is not None and earlier.status == condition.status and earlier.last_transition_time:
            condition = condition.model_copy(update={"last_transition_time": earlier.last_transition_time})
        merged[condition.type] = condition
    places = {type_: place for place, type_ in enumerate(ORDER)}
    return sorted(merged.values(), key=lambda each: places.get(each.type, len(ORDER)))[:MAX_CONDITIONS]
