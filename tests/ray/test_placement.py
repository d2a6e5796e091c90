"""Strategies, labels and accelerator types: the operator's requests to Ray match the pods' nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import JobInput
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from tests.ray.pods import Pods
from tests.unit.builders import make_spec

CODE = """
import json
import ray, ray.train


def train_func():
    context = ray.train.get_context()
    [node] = [n for n in ray.nodes() if n["NodeID"] == ray.get_runtime_context().get_node_id()]
    labels = {k: v for k, v in node["Labels"].items() if not k.startswith("ray.io/")}
    sees = {"rank": context.get_world_rank(), "node": node["NodeManagerAddress"], "labels": labels}
    print(f"sees {json.dumps(sees)}", flush=True)
"""


def make_input(*, accelerator: str | None = None, **scaling: Any) -> JobInput:
    """By the operator's own builder; `accelerator` is the type that Ray would detect on the nodes."""
    spec = make_spec(scaling=scaling, trainer={"trainFunc": "user:train_func", "framework": "Python"})
    job = build_job_input(JobRef("default", "test", "0a1b2c3d-0000-0000-0000-000000000000"), spec)
    worker = job.ray_node.worker
    if accelerator:
        worker = replace(worker, resources={**worker.resources, f"accelerator_type:{accelerator}": 1.0})
    return replace(job, ray_node=replace(job.ray_node, worker=worker))


def read_views(log: str) -> list[dict[str, Any]]:
    lines = [line for line in log.splitlines() if "sees {" in line]
    return sorted((json.loads(line.split("sees ", 1)[1]) for line in lines), key=lambda seen: int(seen["rank"]))


@pytest.mark.parametrize(
    ("pods_", "accelerator", "scaling"),
    [
        (
            2,
            "H100",
            {
                "numWorkers": 2,
                "placementStrategy": "STRICT_SPREAD",
                "useGPU": True,
                "acceleratorType": "H100",
                "rayLabelSelector": {"example.com/pool": "a", "zone": "in(x, y)", "spot": "!true"},
            },
        ),
        pytest.param(
            1, None, {"numWorkers": 2, "workersPerPod": 2, "placementStrategy": "STRICT_PACK"}, marks=pytest.mark.slow
        ),
    ],
    ids=["each on its own node, chosen by label and type", "all in one pod"],
)
def test_the_pods_satisfy_the_strategy(
    tmp_path: Path, pods_: int, accelerator: str | None, scaling: dict[str, Any]
) -> None:
    job = make_input(accelerator=accelerator, **scaling)
    with Pods(tmp_path, job, source={"user.py": CODE}) as pods:
        pods.start(workers=1, env={"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "2"})
        if pods_ > 1:  # a node that joins later than Ray Train waits for it
            pods.wait_until(lambda: "those that have joined have room for 1 of 2 workers" in pods.read_log())
            pods.start_worker(1)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        sees = read_views(pods.read_log())
        assert "RESTARTING" not in {report["state"] for report in pods.reports}, "it has not run yet"
    assert [seen["rank"] for seen in sees] == [0, 1]
    assert len({seen["node"] for seen in sees}) == pods_
    expected = {"example.com/pool": "a"} if "rayLabelSelector" in scaling else {}
    assert all(seen["labels"] == expected for seen in sees)


@pytest.mark.slow  # tests/unit/driver/head/test_ray_cluster.py has the other types
def test_a_wrong_accelerator_is_reported_without_waiting(tmp_path: Path) -> None:
    job = make_input(numWorkers=1, useGPU=True, acceleratorType="H100")
    with Pods(tmp_path, job, source={"user.py": CODE}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "AcceleratorNotThere"
    assert outcome.message.startswith("scaling.acceleratorType H100: worker pod ")
    assert "has no GPU of a type that Ray knows;" in outcome.message
    assert "worker.podTemplate.spec.nodeSelector" in outcome.message
