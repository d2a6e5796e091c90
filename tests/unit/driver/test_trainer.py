"""The job's input -> the arguments of Ray Train's classes, and that Ray takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.driver.train_stub import run_train_func
from railhead.driver.trainer import build_trainer, plan_trainer
from tests.ray.pods import make_job


def test_defaults_are_left_to_ray() -> None:
    plan = plan_trainer(make_job(backend={}), storage_path="/runs")
    assert plan.torch == {}
    assert plan.checkpoint == {}
    assert plan.failure == {"max_failures": 0}
    assert plan.run == {"name": "test-0a1b2c3d", "storage_path": "/runs"}
    assert plan.scaling == {"num_workers": 2, "use_gpu": False, "resources_per_worker": {"CPU": 1.0}}
    assert plan.train_loop_config == {"entrypoint": "user:train_func", "config": {}}


def test_every_option_is_handed_on() -> None:
    job = make_job(
        scaling={
            "numWorkers": 4,
            "useGPU": True,
            "resourcesPerWorker": {"CPU": 2.0, "GPU": 1.0},
        },
        backend={"name": "nccl", "timeoutSeconds": 60},
        checkpoint={"numToKeep": 3, "scoreAttribute": "loss", "scoreOrder": "min"},
        max_failures=2,
        train_loop_config={"lr": 0.1},
    )
    plan = plan_trainer(job, storage_path="s3://bucket/x")
    assert plan.torch == {"backend": "nccl", "timeout_s": 60}
    assert plan.checkpoint == {
        "num_to_keep": 3,
        "checkpoint_score_attribute": "loss",
        "checkpoint_score_order": "min",
    }
    assert plan.failure == {"max_failures": 2}
    assert plan.train_loop_config["config"] == {"lr": 0.1}


def test_ray_is_told_to_keep_two_at_least() -> None:
    assert plan_trainer(make_job(checkpoint={"numToKeep": 1}), storage_path="/r").checkpoint == {"num_to_keep": 2}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("framework", ["Torch", "Python"])
def test_ray_takes_the_arguments(framework: str, tmp_path: Path) -> None:
    job = make_job(framework=framework, checkpoint={"numToKeep": 3, "scoreAttribute": "loss"})
    trainer = build_trainer(plan_trainer(job, storage_path=str(tmp_path)))
    assert trainer.train_loop_per_worker is run_train_func
    assert trainer.run_config.checkpoint_config.num_to_keep == 3


def test_unknown_framework_is_refused() -> None:
    with pytest.raises(ValueError, match=r"trainer\.framework"):
        build_trainer(plan_trainer(make_job(framework="Other"), storage_path="/r"))
