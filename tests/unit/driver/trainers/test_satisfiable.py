"""Whether the worker pods can hold what a ScalingConfig requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.train import ScalingConfig

from railhead.driver.trainers.satisfiable import Wanted, explain_unsatisfiable, read_scaling_config

ONE_CPU = {"cpus": 1, "gpus": 0, "resources": {"railhead_worker": 1.0}}


def explain(workers: int, strategy: str = "PACK", *, pods: int = 2, node: object = ONE_CPU, **needs: float) -> str:
    return explain_unsatisfiable(Wanted(workers, needs, strategy), pods=pods, node=node)  # type: ignore[arg-type]


def test_the_message_shows_the_arithmetic() -> None:
    assert explain(4, CPU=2.0) == (
        "ScalingConfig requests 4 workers of 2 CPU; the job's 2 worker pods of 1 CPU each can hold 0; "
        "change num_workers or resources_per_worker there, or spec.scaling"
    )
    assert (
        "requests 1 worker of 1 CPU and 1 GPU; the job's 2 worker pods of 1 CPU and 0 GPU each can hold 0"
        in explain(1, CPU=1.0, GPU=1.0)
    )


@pytest.mark.parametrize(
    ("workers", "strategy", "pods", "cpus", "is_good"),
    [
        (2, "PACK", 2, 1, True),
        (3, "PACK", 2, 1, False),
        (4, "PACK", 2, 2, True),
        (2, "STRICT_PACK", 2, 1, False),
        (2, "STRICT_PACK", 2, 2, True),
        (2, "STRICT_SPREAD", 1, 2, False),
        (2, "STRICT_SPREAD", 2, 1, True),
        (2, "SPREAD", 1, 2, True),
    ],
)
def test_workers_are_packed_per_pod(workers: int, strategy: str, pods: int, cpus: int, is_good: bool) -> None:
    node = {"cpus": cpus, "gpus": 0, "resources": {}}
    assert (explain(workers, strategy, pods=pods, node=node, CPU=1.0) == "") is is_good


def test_ignores_resources_that_ray_checks_itself() -> None:
    needs = {"memory": 1e12, "accelerator_type:H100": 0.001, "GPU": 0.0}
    assert explain_unsatisfiable(Wanted(100, needs), pods=1, node=ONE_CPU) == ""
    assert "1 tape" in explain(1, tape=1.0)


def test_reads_rays_scaling_config() -> None:
    assert read_scaling_config(ScalingConfig(num_workers=3)) == Wanted(3, {"CPU": 1})
    config = ScalingConfig(num_workers=(2, 4), resources_per_worker={"CPU": 2}, placement_strategy="SPREAD")
    assert read_scaling_config(config) == Wanted(2, {"CPU": 2}, "SPREAD")


@given(st.integers(1, 50), st.integers(1, 20), st.integers(0, 64), st.integers(1, 40))
def test_agrees_with_packing_workers_one_by_one(workers: int, pods: int, cpus: int, tenths: int) -> None:
    """Placing workers one by one into the pods, in tenths of a CPU, gives the same answer."""
    room = [cpus * 10] * pods
    placed = 0
    for index in range(pods):
        while room[index] >= tenths and placed < workers:
            room[index] -= tenths
            placed += 1
    node = {"cpus": cpus, "gpus": 0, "resources": {}}
    assert (explain(workers, pods=pods, node=node, CPU=tenths / 10) == "") is (placed == workers)
