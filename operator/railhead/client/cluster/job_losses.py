"""How often jobs were lost, by their status: what one namespace knows of its hardware. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from railhead.api import conditions as types
from railhead.api.status import parse_status
from railhead.contract.loss_rate import ENOUGH, JobLosses
from railhead.json_object import Object


def read_losses(job: Object) -> JobLosses:
    """Returns those of one TrainJob."""
    return parse_status(job.get("status")).losses


def add_losses(each: Iterable[JobLosses]) -> JobLosses:
    """Returns the losses of all of them."""
    listed = list(each)
    return JobLosses(sum(one.number for one in listed), sum(one.gpu_seconds for one in listed))


def needs_those_of_others(job: Object) -> bool:
    """Returns whether the job trains on GPUs and has had too few losses for a rate of its own."""
    status = parse_status(job.get("status"))
    spent = status.goodput
    if spent is None or not spent.gpu_seconds:
        return False
    return status.has_condition(types.RUNNING) and spent.losses.number < ENOUGH
