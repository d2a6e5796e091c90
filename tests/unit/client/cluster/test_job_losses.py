"""How often the jobs of a namespace were lost, by their status."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.client.cluster.job_losses import add_losses, needs_those_of_others, read_losses
from railhead.contract.loss_rate import JobLosses
from railhead.json_object import Object
from tests.unit.client.jobs import make_job, make_running


def spend(gpu_seconds: int = 3600, **interruptions: int) -> Object:
    return {"gpuSeconds": gpu_seconds, "interruptions": interruptions}


def test_losses_from_outside_count_and_those_of_the_code_do_not() -> None:
    job = make_job(goodput=spend(Infrastructure=2, Hardware=1, Hang=1, Preemption=1, Application=7, OutOfMemory=3))
    assert read_losses(job) == JobLosses(5, 3600)


@pytest.mark.parametrize("status", [{}, {"goodput": spend(0, Hardware=4)}, {"goodput": "damaged"}])
def test_a_job_without_time_on_gpus_says_nothing(status: Any) -> None:
    assert read_losses(make_job(**status)) == JobLosses()


def test_losses_and_time_add_up() -> None:
    assert add_losses([JobLosses(1, 10), JobLosses(), JobLosses(2, 30)]) == JobLosses(3, 40)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (make_running(goodput=spend()), True),
        (make_running(goodput=spend(Hardware=2)), True),
        (make_running(goodput=spend(Hardware=3)), False),
        (make_running(goodput=spend(0)), False),
        (make_running(), False),
        (make_job(goodput=spend()), False),
    ],
)
def test_only_a_training_job_with_gpus_and_few_losses_needs_those_of_others(job: Object, expected: bool) -> None:
    assert needs_those_of_others(job) is expected
