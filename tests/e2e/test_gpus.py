"""The GPUs that each pod and each worker sees, with fake GPUs on the local node."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.jobs import make_job

CODE = """
import json, os
import ray, ray.train
from ray.air._internal.device_manager.nvidia_gpu import CUDATorchDeviceManager
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
def show_raylet():
    environment = open(f"/proc/{os.getppid()}/environ").read().split("\\0")
    return dict(line.split("=", 1) for line in environment if "=" in line).get("CUDA_VISIBLE_DEVICES")


def train_func():
    context = ray.train.get_context()
    sees = {
        "rank": context.get_world_rank(),
        "node": context.get_node_rank(),
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "ids": [str(i) for i in ray.get_gpu_ids()],
        "devices": [d.index for d in CUDATorchDeviceManager().get_devices()],
    }
    if sees["rank"] == 0:
        [head] = [n for n in ray.nodes() if "node:__internal_head__" in n["Resources"]]
        there = NodeAffinitySchedulingStrategy(head["NodeID"], soft=False)
        visible = ray.get(show_raylet.options(scheduling_strategy=there).remote())
        sees["head"] = {"GPU": head["Resources"].get("GPU", 0), "visible": visible}
    print(f"sees {json.dumps(sees)}", flush=True)
"""


@pytest.mark.slow
def test_each_worker_has_its_own_gpus_and_the_head_has_none(cluster: Cluster) -> None:
    """Two pods of two workers with two GPUs each; with Torch, the workers of a pod see each other's."""
    if not cluster.is_local:
        pytest.skip("a real node has no fake GPUs")
    scaling = {
        "numWorkers": 4,
        "workersPerPod": 2,
        "placementStrategy": "SPREAD",
        "useGPU": True,
        "resourcesPerWorker": {"cpu": "200m", "memory": "512Mi", "nvidia.com/gpu": "2"},
    }
    trainer = {"trainFunc": "steps:train_func", "backend": {"name": "gloo"}}
    cluster.apply(make_job("gpus", cluster.image, code=CODE, scaling=scaling, trainer=trainer))
    status = cluster.wait_end("gpus")
    assert status["phase"] == "Succeeded", cluster.tell("gpus")
    lines = [line for line in cluster.log(status["head"]["pod"]).splitlines() if "sees {" in line]
    workers = sorted((json.loads(line.split("sees ", 1)[1]) for line in lines), key=lambda w: int(w["rank"]))
    assert [(w["rank"], w["node"]) for w in workers] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    for worker in workers:  # as ray.train.torch.get_devices returns them with CUDA
        assert [worker["visible"].split(",")[index] for index in worker["devices"]] == worker["ids"]
    pods = {w["node"]: set(w["visible"].split(",")) for w in workers}
    assert [len(gpus) for gpus in pods.values()] == [4, 4] and not pods[0] & pods[1]
    for node, gpus in pods.items():
        ids = list(chain.from_iterable(w["ids"] for w in workers if w["node"] == node))
        assert len(ids) == 4 and set(ids) == gpus
    assert workers[0]["head"] == {"GPU": 0, "visible": ""}
    cluster.delete_job("gpus")
