"""Two heads of one job with a real Ray: the old one keeps running and reaches the storage, the new one trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import CheckpointInput, ScalingInput
from railhead.driver.storage.claims import Claimant, take_run
from railhead.driver.storage.run_folder_files import RunFolder
from tests.ray.pods import Pods, make_job

# Each epoch has a checkpoint. An attempt with `epochs` 0 continues until it is fenced.
TRAINING = """
import os, tempfile, time
import ray.train
from ray.train import Checkpoint

def train_func(config):
    last = ray.train.get_checkpoint()
    first = int(open(os.path.join(last.path, "epoch")).read()) + 1 if last else 0
    print(f"begins with epoch {first}", flush=True)
    epoch = first
    while epoch < first + config["epochs"] or not config["epochs"]:
        time.sleep(config["seconds"])
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "epoch"), "w") as file:
                file.write(str(epoch))
            ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))
        epoch += 1
"""
BUILD = """
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
import user

def build(scaling_config, run_config, train_loop_config, datasets):
    return DataParallelTrainer(
        user.train_func, train_loop_config=train_loop_config, scaling_config=scaling_config, run_config=run_config
    )
"""
SCRIPT = """
import os
import user
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

DataParallelTrainer(
    user.train_func,
    train_loop_config={"epochs": 0, "seconds": 0.2},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name=os.environ["RAILHEAD_RUN_NAME"], storage_path=os.environ["RAILHEAD_STORAGE_PATH"]),
).fit()
"""
SOURCE = {"user.py": TRAINING, "build.py": BUILD, "train.py": SCRIPT}


def make(**changes: Any) -> Any:
    scaling = ScalingInput(1, use_gpu=False, resources_per_worker={"CPU": 1.0})
    return make_job(scaling=scaling, worker_pods=1, checkpoint=CheckpointInput(num_to_keep=1), **changes)


@pytest.mark.slow  # the test below has an old head, test_failures.py a new one, and tests/model/test_twin_heads.py both
def test_an_old_head_that_keeps_running_does_not_harm_its_successor(tmp_path: Path) -> None:
    storage = str(tmp_path / "runs")
    endless, short = {"epochs": 0, "seconds": 0.2}, {"epochs": 12, "seconds": 0.2}
    with Pods(
        tmp_path / "1", make(framework="Python", train_loop_config=endless), source=SOURCE, storage=storage
    ) as old:
        old.start(workers=1)
        old.wait_until(lambda: any((r["checkpoint"] or {}).get("index", 0) >= 3 for r in old.reports))
        old.cut_off()
        reported = old.reports[-1]["checkpoint"]["index"]
        with Pods(
            tmp_path / "2", make(framework="Python", train_loop_config=short), source=SOURCE, storage=storage
        ) as new:
            new.start(workers=1, attempt=2, checkpoint_index=reported)
            assert old.wait_ended() == FailureClass.FENCED.exit_code, old.read_log()
            assert new.wait_ended() == SUCCEEDED_CODE, new.read_log()
            outcome, log = new.read_outcome(), new.read_log()
    ended = old.read_outcome()
    assert (ended.outcome, ended.reason) == ("Fenced", "Fenced")
    assert ended.message == "attempt 2 has taken over the run; attempt 1 no longer commits or deletes anything"
    assert ended.checkpoint is not None and outcome.checkpoint is not None
    assert outcome.checkpoint.index >= reported + 12
    first = int(log.partition("begins with epoch ")[2].split()[0])
    # The fence may act between a commit and the old head's record of it: no recorded epoch is trained again.
    assert first in (ended.checkpoint.index + 1, ended.checkpoint.index + 2)
    run = Path(storage, new.job.run_name)
    snapshot = json.loads((run / "checkpoint_manager_snapshot.json").read_text())
    kept = {each["checkpoint_dir_name"]: each["metrics"]["epoch"] for each in snapshot["checkpoint_results"]}
    assert sorted(kept.values()) == [first + 10, first + 11]
    assert {name: int((run / name / "epoch").read_text()) for name in kept} == kept
    assert Path(outcome.checkpoint.uri).name == max(kept, key=kept.__getitem__)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param({"build": "build:build", "train_func": ""}, id="build"),
        pytest.param({"entrypoint": ["python", "train.py"], "train_func": ""}, id="entrypoint", marks=pytest.mark.slow),
    ],
)
def test_the_users_own_trainer_uses_the_same_fence(tmp_path: Path, way: dict[str, Any]) -> None:
    from pyarrow.fs import LocalFileSystem

    job = make(framework="", train_loop_config={"epochs": 0, "seconds": 0.2}, **way)
    with Pods(tmp_path, job, source=SOURCE) as pods:
        pods.start(workers=1, env={"RAILHEAD_SOURCE": str(tmp_path / "source")})
        pods.wait_until(lambda: any(r["reports"] >= 2 for r in pods.reports))
        take_run(RunFolder(LocalFileSystem(), f"{pods.storage}/{job.run_name}"), Claimant(job.uid), attempt=2)
        assert pods.wait_ended() == FailureClass.FENCED.exit_code, pods.read_log()
        assert pods.read_outcome().message.startswith("attempt 2 has taken over the run; attempt 1")
