"""The examples for GPUs, on CPUs with gloo: the same files, which look for a GPU themselves."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from railhead.contract import environment
from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.job_input import RayNodes
from railhead.contract.outcome import Outcome
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from tests.ray.pods import OBJECT_STORE, Pods
from tests.unit.builders import make_spec

GPU = Path(__file__).resolve().parents[2] / "manifests" / "examples" / "gpu"
UNIFORM = math.log(256)  # the loss of a model that has learned nothing
SMALL = {"batch": 6, "width": 64, "layers": 2, "heads": 4, "context": 64, "lr": 0.01}


def train(
    name: str,
    folder: Path,
    config: Mapping[str, float | str],
    *,
    workers: int,
    gpus: Sequence[str] = (),
    resume_from: Outcome | None = None,
) -> tuple[Outcome, str]:
    """Trains a small model, all workers in one pod; returns the outcome and the head's log."""
    _, document = yaml.safe_load_all((GPU / f"{name}.yaml").read_text())
    fields = document["spec"]
    assert fields["scaling"]["useGPU"] and "backend" not in fields["trainer"]
    fields["scaling"] = {"numWorkers": workers, "workersPerPod": workers, "useGPU": bool(gpus)}
    fields["trainer"]["trainLoopConfig"] |= {**SMALL, **config}
    job = build_job_input(JobRef("default", name, f"{workers}a1b2c3d-0000-0000-0000-000000000000"), make_spec(**fields))
    sizes = RayNodes(
        head=replace(job.ray_node.head, object_store_bytes=OBJECT_STORE),
        worker=replace(job.ray_node.worker, object_store_bytes=OBJECT_STORE),
    )
    # The interface of a pod's network is not that of this machine.
    env = {each["name"]: each["value"] for each in fields["env"] if each["name"] != "NCCL_SOCKET_IFNAME"}
    if resume_from:
        env[environment.RESUME_FROM] = str(find_checkpoint(resume_from))
    source = fields["source"]["inline"]
    with Pods(folder / str(workers), replace(job, ray_node=sizes), source=source, storage=str(folder / "runs")) as pods:
        pods.start_head(**env)
        pods.start_worker(0, env={**env, "CUDA_VISIBLE_DEVICES": ",".join(gpus)})
        assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
        return pods.read_outcome(), pods.read_log()


@pytest.mark.slow
def test_a_sharded_checkpoint_of_two_workers_is_resumed_by_one_and_by_three(tmp_path: Path) -> None:
    first, log = train("text-fsdp", tmp_path, {"steps": 20, "every": "continuous"}, workers=2)
    assert count_begins(log, r"of 2 on cpu begins at step 0") == 2
    assert first.reports >= 2, "the first step, and the end"
    parts = {path.name for path in find_checkpoint(first).iterdir()}
    assert {".metadata", "__0_0.distcp", "__1_0.distcp"} <= parts
    for workers in (1, 3):
        later, log = train("text-fsdp", tmp_path, {"steps": 40}, workers=workers, resume_from=first)
        assert count_begins(log, rf"of {workers} on cpu begins at step 20 again") == workers
        assert read(later, "held_out_loss") < read(first, "held_out_loss") < UNIFORM


@pytest.mark.slow
def test_lora_trains_and_saves_the_adapter_alone_and_another_number_of_workers_resumes(tmp_path: Path) -> None:
    first, log = train("text-lora", tmp_path, {"steps": 10, "save_every": 10, "rank": 4}, workers=2)
    [(trained, total)] = set(re.findall(r"rank \d of 2 on cpu begins at step 0: trains (\d+) of (\d+) weights", log))
    assert int(trained) < int(total) / 2
    files = {path.name for path in (find_checkpoint(first) / "checkpoint").iterdir()}
    assert "adapter_model.safetensors" in files and "model.safetensors" not in files
    config = {"steps": 20, "save_every": 10, "rank": 4}
    later, log = train("text-lora", tmp_path, config, workers=1, resume_from=first)
    assert count_begins(log, r"of 1 on cpu begins at step 10:") == 1
    assert later.reports == 1, "only the steps that were left"
    assert read(later, "eval_loss") < read(first, "eval_loss") < UNIFORM


@pytest.mark.slow
def test_lightning_trains_in_bf16_and_another_number_of_workers_resumes(tmp_path: Path) -> None:
    first, log = train("text-lightning", tmp_path, {"epochs": 1, "steps": 10}, workers=2)
    assert "Using bfloat16 Automatic Mixed Precision" in log
    assert sorted(re.findall(r"epoch (\d) rank (\d) of 2 on cpu", log)) == [("0", "0"), ("0", "1")]
    later, log = train("text-lightning", tmp_path, {"epochs": 2, "steps": 20}, workers=1, resume_from=first)
    assert re.findall(r"epoch (\d) rank (\d) of 1 on cpu", log) == [("1", "0")]
    assert read(later, "held_out_loss") < read(first, "held_out_loss") < UNIFORM


def count_begins(log: str, text: str) -> int:
    return len(re.findall(rf"rank \d {text}", log))


def find_checkpoint(outcome: Outcome) -> Path:
    assert outcome.checkpoint is not None
    return Path(outcome.checkpoint.uri)


def read(outcome: Outcome, metric: str) -> float:
    assert outcome.metrics is not None
    return float(outcome.metrics[metric])
