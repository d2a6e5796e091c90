"""trainer.entrypoint with a real Ray: ordinary scripts that know nothing of Railhead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import environment as e
from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import JobInput
from railhead.contract.report import CommittedCheckpoint
from railhead.history import Record, read_history
from tests.ray.pods import Pods, describe_known, make_job, share_pod
from tests.waiting import wait_until

# Trains epochs with a checkpoint each, and resumes from the last one.
SCRIPT = """
import json
import os
import sys
import tempfile
import time

import ray
import ray.train
from helper import describe
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def loop(config):
    rank = ray.train.get_context().get_world_rank()
    checkpoint = ray.train.get_checkpoint()
    first = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = json.load(open(os.path.join(folder, "epoch"))) + 1
    for epoch in range(first, config["epochs"]):
        print(describe(rank, epoch), flush=True)
        time.sleep(0.3)
        with tempfile.TemporaryDirectory() as folder:
            json.dump(epoch, open(os.path.join(folder, "epoch"), "w"))
            mine = Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"epoch": epoch}, checkpoint=mine)
    print(f"last words of {rank}", flush=True)


if __name__ == "__main__":
    with open(os.environ["PID_FILE"], "w") as file:
        file.write(str(os.getpid()))
    ray.init()
    trainer = DataParallelTrainer(
        loop,
        train_loop_config={"epochs": int(sys.argv[1])},
        scaling_config=ScalingConfig(num_workers=int(os.environ["RAILHEAD_NUM_WORKERS"])),
        run_config=RunConfig(
            name=os.environ["RAILHEAD_RUN_NAME"], storage_path=os.environ["RAILHEAD_STORAGE_PATH"]
        ),
    )
    result = trainer.fit()
    print(f"the result has epoch {result.metrics['epoch']} {open('data.txt').read()}")
"""
HELPER = "def describe(rank, epoch):\n    return f'epoch {epoch} of rank {rank}'\n"
SOURCE = {"train.py": SCRIPT, "helper.py": HELPER, "data.txt": "and the data"}


def read_command(pid: str) -> str:
    """Of a running process; empty for one that has ended."""
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return ""


def make_script_job(*entrypoint: str, **changes: Any) -> JobInput:
    return make_job(train_func="", framework="", entrypoint=list(entrypoint), **changes)


@pytest.mark.slow
def test_a_script_survives_a_lost_worker_and_resumes_in_another_attempt(tmp_path: Path) -> None:
    storage, pid_file = str(tmp_path / "runs"), tmp_path / "pid"
    job = make_script_job("python", "train.py", "1000")
    with Pods(tmp_path / "1", job, source=SOURCE, storage=storage) as pods:
        pods.start(env={"PID_FILE": str(pid_file)})
        pods.wait_until(lambda: any(r["reports"] >= 2 for r in pods.reports), timeout=300)
        pods.kill("w1-0")
        pods.start_worker(1, round_=1)
        pods.wait_until(lambda: "RESTARTING" in [r["state"] for r in pods.reports], timeout=300)
        before = max(r["reports"] for r in pods.reports)
        pods.wait_until(lambda: pods.reports[-1]["reports"] > before, timeout=300)
        pods.wait_until(lambda: "Infrastructure: lost node" in pods.read_log(), timeout=60)  # Ray forwards it late
        pods.terminate("head")
        assert pods.wait_ended(timeout=60) == FailureClass.PREEMPTION.exit_code, pods.read_log()
        first = pods.read_outcome()
        wait_until("the script's end", lambda: "train.py" not in read_command(pid_file.read_text()))
        assert max(r["joined"] for r in pods.reports) == 2, "a lost node does not count in addition to its replacement"
    assert first.checkpoint is not None
    done = first.checkpoint.index
    known = describe_known(replace(first.checkpoint, attempt=1))
    job = make_script_job("python", "train.py", str(done + 4))
    with Pods(tmp_path / "2", job, source=SOURCE, storage=storage) as pods:
        pods.start(attempt=2, checkpoint_index=done, env={"PID_FILE": str(pid_file), e.KNOWN_CHECKPOINTS: known})
        assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
    assert f"(rank 0) epoch {done} of rank 0" not in log
    for rank in (0, 1):
        assert f"(rank {rank}) epoch {done + 2} of rank {rank}" in log  # done + 1 may be stored, but not recorded
        assert f"(rank {rank}) last words of {rank}" in log
    assert f"the result has epoch {done + 3} and the data" in log
    assert outcome.checkpoint is not None
    assert outcome.checkpoint.index == done + 3
    assert outcome.checkpoint.uri.startswith(f"{storage}/{job.run_name}/checkpoint_")
    assert pods.reports[-1]["resumed_from"]["uri"].startswith(storage)
    assert all(r["warning"] is None for r in pods.reports)


# Two calls of fit() as in Ray's documentation, without a RunConfig. The second one waits after its second checkpoint.
DOCUMENTED = """
import os
import tempfile
import time

import ray.train
from ray.train import Checkpoint, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def loop(config):
    checkpoint = ray.train.get_checkpoint()
    first = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    print(f"stage {config['stage']} begins with epoch {first}", flush=True)
    for epoch in range(first, 4):
        while config["stage"] == 2 and epoch == 2 and os.environ["WAITS"]:
            time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "epoch"), "w").write(str(epoch))
            ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))


for stage in (1, 2):
    DataParallelTrainer(loop, train_loop_config={"stage": stage}, scaling_config=ScalingConfig(num_workers=1)).fit()
"""


@pytest.mark.slow
def test_each_fit_of_a_script_from_rays_documentation_resumes_its_own_run(tmp_path: Path) -> None:
    storage = str(tmp_path / "runs")
    job = make_script_job("python", "train.py", worker_pods=1)
    with Pods(tmp_path / "1", job, source={"train.py": DOCUMENTED}, storage=storage) as pods:
        pods.start(workers=1, env={"WAITS": "1"})
        pods.wait_until(lambda: bool(pods.reports) and pods.reports[-1]["reports"] == 6, timeout=300)
        newest = pods.reports[-1]
        pods.kill("head")
    assert newest["run_uri"] == f"{storage}/{job.run_name}-fit-2" and newest["warning"] is None
    assert newest["checkpoint"]["uri"].startswith(newest["run_uri"]) and newest["checkpoint"]["index"] == 5
    checkpoint = CommittedCheckpoint.from_dict(newest["checkpoint"])
    assert checkpoint is not None
    known = describe_known(replace(checkpoint, attempt=1))
    with Pods(tmp_path / "2", job, source={"train.py": DOCUMENTED}, storage=storage) as pods:
        pods.start(workers=1, attempt=2, checkpoint_index=5, env={"WAITS": "", e.KNOWN_CHECKPOINTS: known})
        assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
    assert "stage 1 begins with epoch 4" in log and "stage 2 begins with epoch 2" in log
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 7
    assert outcome.checkpoint.uri.startswith(f"{storage}/{job.run_name}-fit-2/")


# An implicit ray.init(), two calls of fit() of which the last one counts: one without a RunConfig, one with a name.
TWO_FITS = """
import os
import ray.train
from ray.train import RunConfig, ScalingConfig, TrainingFailedError
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

class Mine(Exception):
    def __init__(self, one, two):
        super().__init__(one + two)

def good():
    ray.train.report({"a": 1})

def bad():
    if ray.train.get_context().get_world_rank() == 1:
        raise ValueError("the lorry is empty")
    ray.train.report({"a": 2})

config = dict(scaling_config=ScalingConfig(num_workers=2))
path = os.environ["RAILHEAD_STORAGE_PATH"]
DataParallelTrainer(good, **config).fit()
try:
    DataParallelTrainer(bad, run_config=RunConfig(name="second", storage_path=path), **config).fit()
except TrainingFailedError as error:
    print("caught", type(error.worker_failures[1]).__name__, flush=True)
"""


def read_kept(folder: Path) -> tuple[Record, ...]:
    return read_history({file.name: file.read_bytes() for file in folder.iterdir()}).records


@pytest.mark.slow  # tests/unit/driver/script has the two fits, the name and the end
def test_a_failure_that_the_script_swallows_still_ends_the_attempt(tmp_path: Path) -> None:
    job = share_pod(make_script_job("python", "train.py"))
    with Pods(tmp_path, job, source={"train.py": TWO_FITS}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=300) == FailureClass.APPLICATION.exit_code, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
        assert "caught ValueError" in log
        assert outcome.reason == "TrainFunctionRaised"
        assert outcome.message == "rank 1: ValueError: the lorry is empty (train.py, line 16, in bad)"
        assert outcome.reports == 1
        uris = [r["run_uri"] for r in pods.reports]
        runs = (job.run_name, f"{job.run_name}/second")
        assert [uri for uri in dict.fromkeys(uris) if uri] == [f"{pods.storage}/{name}" for name in runs]
        assert pods.reports[-1]["warning"] is None
        first, second = (Path(pods.storage, name, ".railhead") for name in runs)
        assert [each["metrics"] for each in read_kept(first / "metrics")] == [{"a": 1}]
        assert [each["event"] for each in read_kept(first / "journal")][-2:] == ["state", "end"]
        assert [each["event"] for each in read_kept(second / "journal")][-2:] == ["failure", "state"]


# As in Ray's documentation: the run has a name, and few checkpoints are kept.
NAMED = """
import os
import sys
import tempfile

import ray.train
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def loop(config):
    last = ray.train.get_checkpoint()
    first = int(open(os.path.join(last.path, "epoch")).read()) + 1 if last else 0
    print(f"lr {config['lr']} begins with epoch {first} of {ray.train.get_context().get_experiment_name()}", flush=True)
    for epoch in range(first, first + 3):
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "epoch"), "w").write(str(epoch))
            ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))


result = DataParallelTrainer(
    loop,
    train_loop_config={"lr": sys.argv[1]},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="my-cnn", checkpoint_config=CheckpointConfig(num_to_keep=1)),
).fit()
print("the result is in", result.path)
"""


@pytest.mark.slow  # tests/unit/driver/script has the folders of the runs
def test_the_jobs_of_a_sweep_over_a_script_that_names_its_run_are_apart(tmp_path: Path) -> None:
    """The third one is as `railhead retry` makes it: it begins from the checkpoint of the first one."""
    storage, uids = str(tmp_path / "runs"), [f"{number}a1b2c3d-0000-0000-0000-000000000000" for number in range(3)]
    newest: list[str] = []
    for number, uid in enumerate(uids):
        job = make_script_job("python", "train.py", f"0.{number}", worker_pods=1, uid=uid, run_name=f"lr-{uid[:8]}")
        with Pods(tmp_path / str(number), job, source={"train.py": NAMED}, storage=storage) as pods:
            pods.start(workers=1, env={e.RESUME_FROM: newest[0]} if number == 2 else {})
            assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
            outcome, log, last = pods.read_outcome(), pods.read_log(), pods.reports[-1]
        first = 3 if number == 2 else 0
        assert f"lr 0.{number} begins with epoch {first} of my-cnn" in log
        assert f"the result is in {storage}/{job.run_name}/my-cnn" in log
        assert last["run_uri"] == f"{storage}/{job.run_name}/my-cnn" and last["warning"] is None
        assert (last["resumed_from"] or {}).get("uri") == (newest[0] if number == 2 else None)
        assert outcome.checkpoint is not None
        newest.append(outcome.checkpoint.uri)
    epochs = [Path(uri, "epoch").read_text() for uri in newest]
    assert epochs == ["2", "2", "5"], "no job deletes what another one names"


def test_a_script_that_fails_before_training_ends_with_its_own_message(tmp_path: Path) -> None:
    code = "import sys\nprint('to the log')\nsys.stderr.write('first\\nno such lorry')\nsys.exit(3)\n"
    with Pods(tmp_path, make_script_job("python", "train.py"), source={"train.py": code}) as pods:
        pods.start_head()
        assert pods.wait_ended(timeout=300) == FailureClass.APPLICATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
        assert outcome.process_exit_code == 3
        assert (
            outcome.message
            == "trainer.entrypoint: the script exited with code 3 before any fit():\nfirst\nno such lorry"
        )
        assert "to the log" in pods.read_log()
