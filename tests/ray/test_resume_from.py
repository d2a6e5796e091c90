"""A checkpoint of another run with a real Ray: a run starts from it and never copies or deletes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import CheckpointInput, JobInput
from tests.ray.pods import Pods, make_single_job
from tests.ray.test_fence import BUILD, TRAINING

SCRIPT = """
import os
import user
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

DataParallelTrainer(
    user.train_func,
    train_loop_config={"epochs": 3, "seconds": 0.1},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(
        name=os.environ["RAILHEAD_RUN_NAME"],
        storage_path=os.environ["RAILHEAD_STORAGE_PATH"],
        checkpoint_config=CheckpointConfig(num_to_keep=1),
    ),
).fit()
print("the script begins from", os.environ["RAILHEAD_RESUME_FROM"])
"""
SOURCE = {"user.py": TRAINING, "build.py": BUILD, "train.py": SCRIPT}


def make(**changes: Any) -> JobInput:
    config = {"epochs": 3, "seconds": 0.1}
    return make_single_job(checkpoint=CheckpointInput(num_to_keep=1), train_loop_config=config, **changes)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Of epoch 40, in another run's folder."""
    folder = tmp_path / "runs" / "other" / "c40"
    folder.mkdir(parents=True)
    (folder / "epoch").write_text("40")
    return folder


@pytest.mark.parametrize(
    "way",
    [
        pytest.param({"build": "build:build", "train_func": "", "framework": ""}, id="build", marks=pytest.mark.slow),
        pytest.param({"entrypoint": ["python", "train.py"], "train_func": "", "framework": ""}, id="entrypoint"),
    ],
)
def test_a_run_starts_from_a_foreign_checkpoint_and_leaves_it_alone(
    tmp_path: Path, foreign: Path, way: dict[str, Any]
) -> None:
    train_from(foreign, tmp_path, make(**way))


def train_from(foreign: Path, folder: Path, job: JobInput) -> None:
    """Runs a first attempt to its end."""
    runs = foreign.parents[1]
    with Pods(folder / "1", job, source=SOURCE, storage=str(runs)) as pods:
        pods.start(workers=1, env={"RAILHEAD_RESUME_FROM": str(foreign)})
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        outcome, log, last = pods.read_outcome(), pods.read_log(), pods.reports[-1]
    assert log.count("begins with epoch 41\n") == 1
    assert last["resumed_from"] == {"uri": str(foreign)}
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 2
    run = runs / job.run_name
    assert (foreign / "epoch").read_text() == "40", "this run must not delete it"
    snapshot = json.loads((run / "checkpoint_manager_snapshot.json").read_text())
    kept = sorted(each["metrics"]["epoch"] for each in snapshot["checkpoint_results"])
    assert kept[-1] == 43 and len(list(run.glob("*/epoch"))) == len(kept), "nor copy it"


@pytest.mark.slow
def test_a_later_attempt_resumes_from_the_runs_own_checkpoint(tmp_path: Path, foreign: Path) -> None:
    job = make(framework="Python")
    train_from(foreign, tmp_path, job)
    (foreign / "epoch").unlink()  # no longer needed
    (foreign.parents[1] / job.run_name / ".railhead" / "outcome.json").unlink()  # as if it had not finished
    with Pods(tmp_path / "2", job, source=SOURCE, storage=str(foreign.parents[1])) as pods:
        pods.start(workers=1, attempt=2, checkpoint_index=2, env={"RAILHEAD_RESUME_FROM": str(foreign)})
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        assert pods.read_log().count("begins with epoch 44\n") == 1


def test_a_missing_checkpoint_ends_the_job_before_workers_start(tmp_path: Path) -> None:
    with Pods(tmp_path, make(framework="Python"), source=SOURCE) as pods:
        pods.start_head(RAILHEAD_RESUME_FROM=str(tmp_path / "runs" / "other" / "c41"))
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "ResumeFromNotFound"
    assert outcome.message.startswith(f"spec.resumeFrom {tmp_path}/runs/other/c41: there is no checkpoint")
