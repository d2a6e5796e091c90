"""Which ScalingConfigs of the user's code fit into a job's worker pods."""

from __future__ import annotations

import pytest
from ray.train import ScalingConfig

from railhead.contract.job_input import WORKER_SLOT, RayNode
from railhead.driver.fit.worker_room import explain_missing_room

POD = RayNode(cpus=4, gpus=2, resources={WORKER_SLOT: 2.0, "example.com/nic": 1.0})


@pytest.mark.parametrize(
    ("config", "room"),
    [
        (ScalingConfig(num_workers=12), None),
        (ScalingConfig(num_workers=13), 12),
        (ScalingConfig(num_workers=6, use_gpu=True), None),
        (ScalingConfig(num_workers=7, use_gpu=True), 6),
        (ScalingConfig(num_workers=4, resources_per_worker={"CPU": 3}), 3),
        (ScalingConfig(num_workers=24, resources_per_worker={"CPU": 0.5}), None),
        (ScalingConfig(num_workers=40, resources_per_worker={"CPU": 0.1}), None),
        (ScalingConfig(num_workers=4, use_gpu=True, resources_per_worker={"CPU": 4}), 3),
        (ScalingConfig(num_workers=7, use_gpu=True, resources_per_worker={"CPU": 0}), 6),
        (ScalingConfig(num_workers=4, resources_per_worker={"example.com/nic": 1}), 3),
        (ScalingConfig(num_workers=4, resources_per_worker={"CPU": 1, "memory": 1e9}), None),
        (ScalingConfig(num_workers=4, resources_per_worker={"accelerator_type:H100": 0.001}), None),
        (ScalingConfig(num_workers=4, use_gpu=True, accelerator_type="H100"), None),
    ],
)
def test_workers_without_room_are_counted(config: ScalingConfig, room: int | None) -> None:
    problem = explain_missing_room(config, pods=3, pod=POD)
    if room is None:
        assert problem == ""
    else:
        assert f"the 3 worker pods have room for {room}; correct num_workers or resources_per_worker there" in problem


def test_the_message_names_what_a_worker_needs() -> None:
    config = ScalingConfig(num_workers=4, use_gpu=True, resources_per_worker={"CPU": 8})
    problem = explain_missing_room(config, pods=2, pod=POD)
    assert problem.startswith(
        "ScalingConfig asks for 4 workers of 8 CPU, 1 GPU, but the 2 worker pods have room for 0;"
    )


def test_an_elastic_group_begins_with_its_minimum() -> None:
    elastic = ScalingConfig(num_workers=2)
    elastic.num_workers = (12, 40)
    assert explain_missing_room(elastic, pods=3, pod=POD) == ""
    elastic.num_workers = (13, 40)
    assert "asks for 13 workers" in explain_missing_room(elastic, pods=3, pod=POD)
