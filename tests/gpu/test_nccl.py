"""A real NCCL job on the GPUs of this machine: one rank per GPU, each in its own worker pod."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from tests.gpu.devices import GPUS, needs_gpus
from tests.ray.pods import Pods
from tests.unit.builders import make_spec

CODE = """
import json, os
import ray, ray.train, ray.train.torch
import torch, torch.distributed


def train_func():
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    device = ray.train.torch.get_device()
    value = torch.full((1024,), float(rank + 1), device=device)
    torch.distributed.all_reduce(value)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
    torch.manual_seed(rank)
    loss = model(torch.randn(16, 8, device=device)).square().mean()
    loss.backward()
    gradients = [parameter.grad.sum().item() for parameter in model.parameters()]
    gathered = [None] * size
    torch.distributed.all_gather_object(gathered, gradients)
    sees = {
        "rank": rank,
        "backend": torch.distributed.get_backend(),
        "sum": value[0].item(),
        "uuid": str(torch.cuda.get_device_properties(device).uuid),
        "types": sorted(k for n in ray.nodes() for k in n["Resources"] if k.startswith("accelerator_type:")),
        "gradients": gathered,
    }
    print(f"sees {json.dumps(sees)}", flush=True)
    ray.train.report({"loss": loss.item()})
"""


@pytest.mark.parametrize(
    "size",
    [pytest.param(1, marks=needs_gpus(1)), pytest.param(2, marks=needs_gpus(2))],
    ids=["one rank, no traffic between ranks", "two ranks"],
)
def test_nccl_trains_on_real_gpus(tmp_path: Path, size: int) -> None:
    """Ray also detects the GPUs' type and each pod's GPU."""
    gpus = GPUS[:size]
    scaling = {"numWorkers": size, "useGPU": True}
    spec = make_spec(scaling=scaling, trainer={"trainFunc": "user:train_func", "backend": {"name": "nccl"}})
    job = build_job_input(JobRef("default", "test", "0a1b2c3d-0000-0000-0000-000000000000"), spec)
    with Pods(tmp_path, job, source={"user.py": CODE}) as pods:
        pods.start_head()
        for slot, gpu in enumerate(gpus):
            pods.start_worker(slot, env={"CUDA_VISIBLE_DEVICES": gpu})
        assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
        sees = read_views(pods.read_log())
    assert [(s["rank"], s["backend"]) for s in sees] == [(rank, "nccl") for rank in range(size)]
    assert {s["sum"] for s in sees} == {size * (size + 1) / 2}
    assert len({s["uuid"] for s in sees}) == size, "each rank has its own GPU"
    assert all(len(s["types"]) == size for s in sees), "Ray knows the type of each"
    for each in sees:  # DistributedDataParallel has averaged them
        assert all(rank == pytest.approx(each["gradients"][0]) for rank in each["gradients"])


@needs_gpus(1)
def test_a_gpu_of_another_type_is_rejected_and_named(tmp_path: Path) -> None:
    spec = make_spec(
        scaling={"numWorkers": 1, "useGPU": True, "acceleratorType": "Imaginary"}, trainer={"trainFunc": "user:f"}
    )
    job = build_job_input(JobRef("default", "test", "0a1b2c3d-0000-0000-0000-000000000000"), spec)
    with Pods(tmp_path, replace(job, framework="Python"), source={"user.py": "def f(): pass"}) as pods:
        pods.start_head()
        pods.start_worker(0, env={"CUDA_VISIBLE_DEVICES": GPUS[0]})
        assert pods.wait_ended(timeout=300) == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        message = pods.read_outcome().message
    assert "has no GPU of a type" not in message and " has " in message


def read_views(log: str) -> list[dict[str, Any]]:
    lines = [line for line in log.splitlines() if "sees {" in line]
    return sorted((json.loads(line.split("sees ", 1)[1]) for line in lines), key=lambda seen: int(seen["rank"]))
