"""How often jobs were lost, by their status: what one namespace knows of its hardware. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from railhead.api import conditions as types
from railhead.api.goodput import GoodputStatus
from railhead.api.status import parse_status
from railhead.contract.failure import FailureClass
from railhead.json_object import Object

ENOUGH = 3  # losses, from which a rate is computed
# Classes of losses that come from outside, at a rate that grows with the hardware. Another loss says more of the code.
FROM_OUTSIDE = (FailureClass.INFRASTRUCTURE, FailureClass.HARDWARE, FailureClass.HANG, FailureClass.PREEMPTION)


@dataclass(frozen=True)
class JobLosses:
    """The losses of some jobs, and the seconds times GPUs in which they happened."""

    number: int = 0
    gpu_seconds: int = 0


NO_LOSSES = JobLosses()


def count_losses(spent: GoodputStatus | None) -> int:
    """Counts the losses that came from outside."""
    if spent is None:
        return 0
    return sum(spent.interruptions.get(each.value, 0) for each in FROM_OUTSIDE)


def read_losses(job: Object) -> JobLosses:
    """Returns those of one TrainJob."""
    spent = parse_status(job.get("status")).goodput
    if spent is None or not spent.gpu_seconds:
        return NO_LOSSES
    return JobLosses(count_losses(spent), spent.gpu_seconds)


def add_losses(each: Iterable[JobLosses]) -> JobLosses:
    """Returns the losses of all of them."""
    listed = list(each)
    return JobLosses(sum(one.number for one in listed), sum(one.gpu_seconds for one in listed))


def needs_those_of_others(job: Object) -> bool:
    """Whether the job trains on GPUs and has had too few losses for a rate of its own."""
    status = parse_status(job.get("status"))
    spent = status.goodput
    is_on_gpus = spent is not None and spent.gpu_seconds > 0
    return is_on_gpus and status.has_condition(types.RUNNING) and count_losses(spent) < ENOUGH
