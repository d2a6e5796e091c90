"""The job's input survives JSON, also between versions."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import pytest

from railhead.contract.job_input import (
    BackendInput,
    CheckpointInput,
    DatasetInput,
    ElasticInput,
    GitInput,
    JobInput,
    ProgressInput,
    RayNode,
    RayNodes,
    ScalingInput,
)

NODE = RayNode(cpus=1, gpus=2, resources={"a.b/nic": 1.0}, object_store_bytes=3, labels={"zone": "a"})
FULL = JobInput(
    namespace="ns",
    name="n",
    uid="u",
    run_name="run",
    scaling=ScalingInput(
        num_workers=8,
        use_gpu=True,
        resources_per_worker={"GPU": 1.0},
        placement_strategy="SPREAD",
        accelerator_type="H100",
        ray_label_selector={"pool": "a"},
        elastic=ElasticInput(min_workers=2, workers_per_pod=2, start_wait_seconds=3, resize_interval_seconds=4),
    ),
    worker_pods=4,
    ray_node=RayNodes(head=NODE, worker=NODE),
    is_sharing_run=True,
    former_uids=["v"],
    framework="Torch",
    train_func="m:f",
    validation_function="m:v",
    build="m:b",
    entrypoint=["python", "train.py"],
    train_loop_config={"useGPU": None, "nested": [{"numWorkers": 1}]},
    backend=BackendInput("gloo", 60, "tcp"),
    datasets={"a": DatasetInput(format="csv", uri="s3://b/a", split=False), "b": DatasetInput(function="m:d")},
    callbacks=["m:C"],
    checkpoint=CheckpointInput(num_to_keep=2, score_attribute="loss", score_order="min"),
    progress=ProgressInput("n", "m"),
    max_failures=0,
    collective_timeout_seconds=9,
    log_level="DEBUG",
    forward_logs="Rank0",
    archive_logs="All",
    archive_wanted="All",
    archive_per_rank=1,
    archive_per_run=2,
    end_seconds=60,
    metrics_port=9400,
    drain_seconds=30,
    is_drain_required=True,
    storage_path="s3://bucket/runs",
    git=GitInput("https://host/code", "0" * 40, path="src", secret_name="keys"),
    source_digest="d",
    runtime_env={"env_vars": {"A": "1"}},
)


def list_unset(value: Any) -> list[str]:
    """Returns the fields that have their default, of all dataclasses within this value."""
    unset = []
    for each in fields(value):
        found = getattr(value, each.name)
        if not found and found != 0:
            unset.append(each.name)
        if is_dataclass(found):
            unset += list_unset(found)
    return unset


def test_each_field_arrives() -> None:
    assert not list_unset(FULL), "this test does not set them"
    assert JobInput.from_json(FULL.to_json()) == FULL
    assert JobInput.from_json(FULL.to_json()).train_loop_config == FULL.train_loop_config, "the user's own keys"


def test_a_job_without_optional_fields_arrives() -> None:
    job = JobInput("ns", "n", "u", "run", ScalingInput(1), 1)
    assert JobInput.from_json(job.to_json()) == job
    assert not job.is_elastic


def test_an_older_bundle_reads_what_a_newer_operator_adds() -> None:
    values = asdict(FULL)
    values["new"] = 1
    values["scaling"]["new"] = {"a": 1}
    values["ray_node"]["worker"]["new"] = None
    values["datasets"]["a"]["new"] = "x"
    assert JobInput.from_json(json.dumps(values)) == FULL


def test_an_input_without_a_required_part_is_refused() -> None:
    values = asdict(FULL)
    del values["scaling"]["num_workers"]
    with pytest.raises(TypeError, match="num_workers"):
        JobInput.from_json(json.dumps(values))


def test_the_json_has_the_fields_and_nothing_else() -> None:
    assert json.loads(FULL.to_json()) == asdict(FULL)
