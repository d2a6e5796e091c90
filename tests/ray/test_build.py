"""trainer.build with a real Ray: the user's trainer, and which of the user's modules go with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import RayNode, RayNodes
from tests.ray.pods import OBJECT_STORE, Pods, make_job, share_pod

# The train function, the backend and the Ray Data function are pickled by reference to this
# module, which workers and controller have to import.
MAKES_A_TRAINER = """
import os
import tempfile

import ray.data
import ray.train
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def greet(word):
    os.environ["GREETING"] = word


class Greeting(Backend):
    def on_start(self, worker_group, backend_config):
        worker_group.execute(greet, backend_config.word)


class GreetingConfig(BackendConfig):
    def __init__(self, word):
        self.word = word

    @property
    def backend_cls(self):
        return Greeting


class Total:
    def __init__(self):
        self.value = 0


def double(row):
    return {"n": row["id"] * 2}


def loop(config):
    total = Total()
    for row in ray.train.get_dataset_shard("numbers").iter_rows():
        total.value += row["n"]
    print(f"greeting is {os.environ['GREETING']}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "total"), "w") as file:
            file.write(str(total.value))
        mine = ray.train.Checkpoint.from_directory(folder) if ray.train.get_context().get_world_rank() == 0 else None
        ray.train.report({"total": total.value, "lr": config["lr"]}, checkpoint=mine)
    print("last words", flush=True)
    return total


def make_trainer(scaling_config, run_config, train_loop_config, datasets):
    word = open("word.txt").read()
    print("builds in the driver", flush=True)
    numbers = ray.data.range(10).map(double)
    return DataParallelTrainer(
        loop,
        train_loop_config=train_loop_config,
        backend_config=GreetingConfig(word),
        scaling_config=scaling_config,
        run_config=run_config,
        datasets={**datasets, "numbers": numbers},
        dataset_config=ray.train.DataConfig(datasets_to_split=[]),
    )
"""


@pytest.mark.slow  # test_fence.py has a trainer of the user, tests/unit/driver/fit/test_users_trainer.py the rest
def test_a_trainer_of_the_user_with_backend_and_dataset(tmp_path: Path) -> None:
    node = RayNode(cpus=2, gpus=0, resources={}, object_store_bytes=OBJECT_STORE)
    job = share_pod(
        make_job(
            train_func="",
            build="user:make_trainer",
            framework="",
            train_loop_config={"lr": 0.5},
            ray_node=RayNodes(RayNode(object_store_bytes=OBJECT_STORE), node),
        )
    )
    with Pods(tmp_path, job, source={"user.py": MAKES_A_TRAINER, "word.txt": "hello"}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
        assert outcome.metrics == {"total": "90", "lr": "0.5"}
        assert outcome.checkpoint is not None
        assert outcome.checkpoint.uri.startswith(f"{pods.storage}/{job.run_name}/checkpoint_")
        assert log.count("builds in the driver") == 1
        for rank in (0, 1):
            assert f"(rank {rank}) greeting is hello" in log
            assert f"(rank {rank}) last words" in log
        assert pods.reports[-1]["state"] == "FINISHED"
        assert all(report["warning"] is None for report in pods.reports)
        assert "railhead-mark" not in log


BREAKS_A_GPU = """
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def set_up(rank):
    if rank == 1:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered\\nCompile with `TORCH_USE_CUDA_DSA`")


class Group(Backend):
    def on_start(self, worker_group, backend_config):
        import ray
        ray.get([worker_group.execute_single_async(rank, set_up, rank) for rank in range(len(worker_group))])


class GroupConfig(BackendConfig):
    backend_cls = Group


def make_trainer(scaling_config, run_config, **others):
    return DataParallelTrainer(
        lambda: None, backend_config=GroupConfig(), scaling_config=scaling_config, run_config=run_config
    )
"""


@pytest.mark.slow  # tests/unit/driver/train_controller/failures/test_failure_policy.py has a set-up that fails
def test_a_gpu_that_breaks_while_the_process_group_forms_names_its_rank_and_pod(tmp_path: Path) -> None:
    """Before Ray Train calls the callback that tells which processes the group has."""
    job = make_job(train_func="", build="user:make_trainer", framework="")
    with Pods(tmp_path, job, source={"user.py": BREAKS_A_GPU}) as pods:
        pods.start()
        assert pods.wait_ended(timeout=300) == FailureClass.HARDWARE.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert (outcome.reason, outcome.suspect_pod) == ("GPUFailed", outcome.message.split()[1].rstrip(":"))
    assert "rank 1: the workers could not be set up: " in outcome.message
    assert "uncorrectable ECC error encountered" in outcome.message


RAISES = """
import time
import ray.train
from ray.train.torch import TorchTrainer


class OnlyHere(Exception):
    def __init__(self, what, why):
        super().__init__(f"{what} because {why}")


def loop():
    print(f"last words of {ray.train.get_context().get_world_rank()}", flush=True)
    if ray.train.get_context().get_world_rank() == 1:
        raise OnlyHere("it stopped", "it must")
    time.sleep(60)


def make_trainer(scaling_config, run_config, **others):
    mine = ray.train.RunConfig(name="mine", storage_path=run_config.storage_path)
    return TorchTrainer(loop, scaling_config=scaling_config, run_config=mine)
"""


@pytest.mark.slow
def test_a_function_that_raises_and_a_run_that_build_names_are_reported(tmp_path: Path) -> None:
    job = make_job(train_func="", build="user:make_trainer", framework="")
    with Pods(tmp_path, job, source={"user.py": RAISES}) as pods:
        pods.start()
        assert pods.wait_ended(timeout=300) == FailureClass.APPLICATION.exit_code, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
        assert outcome.reason == "TrainFunctionRaised"
        assert "rank 1: user.OnlyHere: it stopped because it must (user.py, line 15, in loop)" in outcome.message
        assert "(rank 0) last words of 0" in log and "(rank 1) last words of 1" in log
        last = pods.reports[-1]
        assert last["run_uri"] == f"{pods.storage}/{job.run_name}/mine" and last["warning"] is None


@pytest.mark.slow
def test_a_function_that_returns_no_trainer_is_rejected_with_its_field(tmp_path: Path) -> None:
    job = make_job(train_func="", build="user:make_trainer", framework="")
    code = "def make_trainer(**arguments):\n    return sorted(arguments)\n"
    with Pods(tmp_path, job, source={"user.py": code}) as pods:
        pods.start_head()
        assert pods.wait_ended(timeout=300) == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        message = pods.read_outcome().message
        assert message.startswith("trainer.build user:make_trainer: it returned a builtins.list")
