"""status.goodput: what the job's time was spent on."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from railhead.api.model import StatusModel, time_field
from railhead.contract.failure import POLICIES
from railhead.contract.loss_rate import LossHistory
from railhead.contract.numbers import MAX_INT32

MOST = 2**53 - 1  # exact in JSON numbers
MOST_INTERRUPTIONS = MAX_INT32
FROM_OUTSIDE = tuple(kind for kind, policy in POLICIES.items() if policy.comes_from_outside)
Interruptions = Annotated[int, Field(ge=0, le=MOST_INTERRUPTIONS)]


def _count(description: str, *, alias: str | None = None) -> Any:
    return Field(default=0, ge=0, le=MOST, description=description, alias=alias, json_schema_extra={"format": "int64"})


class SpentStatus(StatusModel):
    """Milliseconds of the attempt by its driver's count."""

    productive: int = _count("The worker group trained, and the run did not lose it in this attempt.")
    starting: int = _count("Until the first worker group trained.")
    restoring: int = _count("The worker group restarted within the attempt.")
    checkpointing: int = _count("Rank 0 saved or reported.")
    retrained: int = _count("Training that a restart within the attempt lost.")
    hanging: int = _count("No rank made a step before a hang was detected.")
    uncommitted: int = _count("The part of productive since the report call of the last checkpoint.")


class SettledStatus(SpentStatus):
    """The part of an attempt's milliseconds that is counted."""

    attempt: int = Field(
        default=0, ge=0, description="The attempt that they are of.", json_schema_extra={"format": "int32"}
    )


class LostSeconds(StatusModel):
    """Seconds in which the job did not train, or that it lost, by cause."""

    queued: int = _count("The job waited for its queue, or for a quota or nodes that other jobs have.")
    pods_pending: int = _count("Pods of the attempt were not up yet.")
    starting: int = _count("Ray and the worker group started, before training first ran.")
    restoring: int = _count("The same again after a loss, and the delay before the next attempt.")
    checkpointing: int = _count("Rank 0 saved or reported.")
    retrained: int = _count("Training that a loss took back, since the report call of the last checkpoint.")
    hanging: int = _count("No rank made a step before a hang was detected.")
    draining: int = _count("Pods ended for a suspension, or the head for a drain or an eviction.")
    suspended: int = _count("The job was suspended.")
    other: int = _count("All other time, such as what a lost report would have told.")


class GoodputStatus(StatusModel):
    """What the job's time was spent on: productiveSeconds and lostSeconds add up to wallSeconds exactly."""

    percent: str = Field(
        default="", max_length=8, description="productiveSeconds of wallSeconds, with a decimal; empty at the start."
    )
    time: str | None = time_field("Until when time is counted. The driver's time counts once it has reported it.")
    wall_seconds: int = _count("From the first attempt's start until then.")
    productive_seconds: int = _count("Training ran, and no loss has taken it back.")
    lost_seconds: LostSeconds = Field(default_factory=LostSeconds, description="All other seconds, by cause.")
    gpu_seconds: int = _count("Seconds times GPUs of the attempt's worker pods, while it had pods.")
    lost_gpu_seconds: int = _count("The part of gpuSeconds that was not productive.", alias="lostGPUSeconds")
    interruptions: dict[Annotated[str, Field(max_length=32)], Interruptions] = Field(
        default_factory=dict,
        max_length=16,
        description="Lost attempts, rounds of worker pods and restarts in place, by the class of their failure.",
    )
    settled: SettledStatus | None = Field(
        default=None, description="What of status.progress.spent is counted; absent while no driver has reported."
    )

    @property
    def losses(self) -> LossHistory:
        """Returns the losses that came from outside, and for how long there was a worker group that could be lost."""
        number = sum(self.interruptions.get(each.value, 0) for each in FROM_OUTSIDE)
        lost = self.lost_seconds
        return LossHistory(number, self.productive_seconds + lost.retrained + lost.checkpointing + lost.hanging)
