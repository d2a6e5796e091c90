"""The job's input -> the arguments of Ray Train's classes, which Ray accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railhead.driver.rank.train_func import run_train_func
from railhead.driver.trainers import trainer
from railhead.driver.trainers.configs import plan_configs
from railhead.driver.trainers.trainer import build_trainer
from tests.ray.pods import make_job


def test_defaults_are_left_to_ray() -> None:
    plan = plan_configs(make_job(), storage_path="/runs")
    assert plan.checkpoint == {}
    assert plan.failure == {}
    assert plan.run == {"name": "test-0a1b2c3d", "storage_path": "/runs"}
    assert plan.scaling == {"num_workers": 2, "use_gpu": False, "resources_per_worker": {"CPU": 1}}


def test_passes_on_every_option() -> None:
    job = make_job(
        scaling={
            "numWorkers": 4,
            "useGPU": True,
            "resourcesPerWorker": {"CPU": 2.0, "GPU": 1.0},
            "placementStrategy": "SPREAD",
            "acceleratorType": "H100",
            "rayLabelSelector": {"pool": "a"},
        },
        checkpoint={"numToKeep": 3, "scoreAttribute": "loss", "scoreOrder": "min"},
        max_failures=2,
        log_level="WARNING",
    )
    plan = plan_configs(job, storage_path="s3://bucket/x")
    assert plan.scaling == {
        "num_workers": 4,
        "use_gpu": True,
        "resources_per_worker": {"CPU": 2.0, "GPU": 1.0},
        "placement_strategy": "SPREAD",
        "accelerator_type": "H100",
        "label_selector": {"pool": "a"},
    }
    assert plan.checkpoint == {
        "num_to_keep": 3,
        "checkpoint_score_attribute": "loss",
        "checkpoint_score_order": "min",
    }
    assert plan.failure == {"max_failures": 2}
    assert plan.logging == {"log_level": "WARNING"}


def test_whole_numbers_are_integers() -> None:
    """JaxTrainer makes a list of a worker's devices by `range(GPU)`."""
    scaling = {"numWorkers": 1, "useGPU": True, "resourcesPerWorker": {"CPU": 0.5, "GPU": 2.0}}
    planned = plan_configs(make_job(scaling=scaling), storage_path="/r").scaling["resources_per_worker"]
    assert planned == {"CPU": 0.5, "GPU": 2}
    assert isinstance(planned["GPU"], int)


def test_ray_keeps_at_least_two_checkpoints() -> None:
    assert plan_configs(make_job(checkpoint={"numToKeep": 1}), storage_path="/r").checkpoint == {"num_to_keep": 2}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("framework", "backend"),
    [  # TensorFlow takes seconds to import; tests/e2e/test_examples.py has it
        ("Torch", {"name": "gloo", "timeoutSeconds": 60, "initMethod": "tcp"}),
        ("XGBoost", {"name": "rabit"}),
        ("LightGBM", {}),
        ("JAX", {}),
        ("Python", {}),
    ],
)
def test_ray_accepts_the_arguments(framework: str, backend: dict[str, str], tmp_path: Path) -> None:
    job = make_job(
        framework=framework,
        backend=backend,
        checkpoint={"numToKeep": 3, "scoreAttribute": "loss"},
        train_loop_config={"lr": 0.1},
        log_level="ERROR",
    )
    trainer: Any = build_trainer(job, storage_path=str(tmp_path))
    assert trainer.train_loop_per_worker is run_train_func
    assert trainer.train_loop_config == {"entrypoint": "user:train_func", "config": {"lr": 0.1}, "initial": ""}
    assert trainer.run_config.checkpoint_config.num_to_keep == 3
    assert trainer.run_config.logging_config.log_level == "ERROR"


@pytest.mark.parametrize(
    ("fields", "is_left_out"),
    [
        ({}, True),
        ({"validation_function": "user:validate"}, True),
        ({"datasets": {"train": {"format": "csv", "uri": "/data"}}}, True),
        ({"framework": "XGBoost"}, False),
        ({"callbacks": ["user:Callback"]}, False),
        ({"build": "user:build"}, False),
        ({"datasets": {"train": {"function": "user:read"}}}, False),
    ],
)
def test_torch_is_left_out_only_where_no_code_of_the_user_runs_in_the_head(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fields: dict[str, Any], is_left_out: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(trainer, "leave_out_torch", lambda: calls.append("torch"))
    monkeypatch.setattr(trainer, "build_framework_trainer", lambda *_, **__: None)
    monkeypatch.setattr("railhead.driver.trainers.callbacks.add_callbacks", lambda config, references: None)
    build_trainer(make_job(**fields), storage_path=str(tmp_path))
    assert calls == ["torch"] * is_left_out
