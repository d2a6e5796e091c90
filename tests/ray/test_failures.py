"""How attempts end, with a real Ray: each failure's class, message and exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railhead.contract import exit_codes
from tests.ray.pods import IS_SHARING_FOLDERS, Pods, make_job

REPORTING = """
import os, tempfile, time
import ray.train

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    checkpoint = ray.train.get_checkpoint()
    first = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    for epoch in range(first, config["epochs"]):
        print(f"epoch {epoch} of rank {rank}", flush=True)
        time.sleep(config["seconds"])
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if rank == 0:
                with open(os.path.join(folder, "epoch"), "w") as file:
                    file.write(str(epoch))
                made = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch}, checkpoint=made)
"""


def test_lost_worker_pod_is_replaced_in_the_same_fit(tmp_path: Path) -> None:
    config = {"epochs": 12, "seconds": 0.5}
    with Pods(tmp_path, make_job(framework="Python", train_loop_config=config), source={"user.py": REPORTING}) as pods:
        pods.start()
        pods.wait_until(lambda: any(r["reports"] >= 3 for r in pods.reports))
        pods.kill("w1-0")
        pods.start_worker(1, round_=1)
        assert pods.wait_ended() == exit_codes.SUCCEEDED, pods.read_log()
        outcome = pods.read_outcome()
        assert outcome.outcome == "Succeeded"
        assert outcome.checkpoint is not None
        assert outcome.checkpoint.index == 11
        assert outcome.metrics == {"epoch": "11"}
        states = [r["state"] for r in pods.reports]
        assert "RESTARTING" in states
        assert states[-1] == "FINISHED"
        log = pods.read_log()
        copies = 3 if IS_SHARING_FOLDERS else 1  # each of the three nodes reads the one folder of logs
        assert log.count("(rank 0) epoch 11 of rank 0") <= copies and "(rank 0) epoch 11 of rank 0" in log
        assert log.count("(rank 1) epoch 11 of rank 1") <= copies and "(rank 1) epoch 11 of rank 1" in log
        assert "Infrastructure: lost node" in log


# On its first start it waits to be lost; on its second it writes down whom Ray believes to be alive.
BELIEVING = """
import pathlib, threading
import ray, ray.train

def train_func(config):
    mark = pathlib.Path(config["mark"])
    rank = ray.train.get_context().get_world_rank()
    if mark.exists():
        alive = sum(node["Alive"] for node in ray.nodes())
        ray.train.report({"alive": alive})
        return
    print(f"rank {rank} waits", flush=True)
    threading.Event().wait()
"""


def test_ray_is_told_of_a_lost_node_and_puts_nothing_there(tmp_path: Path) -> None:
    mark = tmp_path / "lost"
    job = make_job(framework="Python", train_loop_config={"mark": str(mark)})
    never = {"RAY_health_check_period_ms": "600000"}  # by itself Ray would not see it within this test
    with Pods(tmp_path / "pods", job, source={"user.py": BELIEVING}) as pods:
        pods.start(env=never)
        pods.wait_until(lambda: "rank 0 waits" in pods.read_log() and "rank 1 waits" in pods.read_log())
        mark.touch()
        pods.kill("w1-0")
        pods.start_worker(1, round_=1, env=never)
        assert pods.wait_ended() == exit_codes.SUCCEEDED, pods.read_log()
        assert pods.read_outcome().metrics == {"alive": "3"}, "the head and the two pods that live"
        assert "railhead: Ray is told that the node " in pods.read_log()


def test_new_attempt_goes_on_from_the_last_checkpoint_and_sigterm_ends_at_once(tmp_path: Path) -> None:
    config = {"epochs": 5, "seconds": 0.2}
    source = {"user.py": REPORTING, "queue.py": "raise RuntimeError('not the standard library')"}
    job = make_job(framework="Python", train_loop_config={**config, "epochs": 1000})
    with Pods(tmp_path / "1", job, source=source, storage=str(tmp_path / "runs")) as pods:
        pods.start()
        pods.wait_until(lambda: any(r["reports"] >= 2 for r in pods.reports))
        pods.terminate("head")
        assert pods.wait_ended(timeout=10) == exit_codes.TERMINATED
        first = pods.read_outcome()
    assert first.outcome == "Preemption"
    assert first.checkpoint is not None
    done = first.checkpoint.index
    job = make_job(framework="Python", train_loop_config={**config, "epochs": done + 3})
    with Pods(tmp_path / "2", job, source=source, storage=str(tmp_path / "runs")) as pods:
        pods.start(attempt=2, checkpoint_index=done)
        assert pods.wait_ended() == exit_codes.SUCCEEDED
        log = pods.read_log()
        assert [e for e in range(done + 3) if f"(rank 0) epoch {e} of rank 0" in log] == [done + 1, done + 2]
        assert pods.reports[-1]["attempt"] == 2
        assert pods.reports[-1]["resumed_from"]["uri"].startswith(str(tmp_path / "runs"))
        outcome = pods.read_outcome()
        assert outcome.checkpoint is not None
        assert outcome.checkpoint.index == done + 2


# Both ranks' part of a checkpoint has one name, so that the test can be in its way.
NAMED = """
import tempfile, ray.train

def train_func(config):
    context = ray.train.get_context()
    for step in range(3):
        with tempfile.TemporaryDirectory() as folder:
            open(f"{folder}/{context.get_world_rank()}", "w").close()
            made = ray.train.Checkpoint.from_directory(folder)
            mode = getattr(ray.train.CheckpointUploadMode, config["mode"])
            ray.train.report(
                {}, checkpoint=made, checkpoint_dir_name=f"step-{step}", checkpoint_upload_mode=mode,
                delete_local_checkpoint_after_upload=False,
            )
            ray.train.get_all_reported_checkpoints()  # waits until it is committed
"""


@pytest.mark.parametrize("mode", ["SYNC", pytest.param("ASYNC", marks=pytest.mark.slow)])
def test_a_storage_that_takes_no_checkpoint_is_not_charged_to_train_func(tmp_path: Path, mode: str) -> None:
    job = make_job(framework="Python", train_loop_config={"mode": mode})
    run = tmp_path / "runs" / job.run_name
    run.mkdir(parents=True)
    (run / "step-1").write_text("in the way")
    with Pods(tmp_path / "pods", job, source={"user.py": NAMED}, storage=str(tmp_path / "runs")) as pods:
        pods.start()
        pods.wait_until(lambda: "the worker group is formed anew" in pods.read_log())
        (run / "step-1").unlink()
        assert pods.wait_ended() == exit_codes.SUCCEEDED, pods.read_log()
        log = pods.read_log()
    found = re.findall(r"railhead: (\w+): (.*); the worker group is formed anew", log)
    assert {kind for kind, _ in found} == {"Infrastructure"}
    assert all("run.storagePath did not take a checkpoint: rank " in words and "step-1" in words for _, words in found)


RAISES = """
import ray.train

class OnlyHere(Exception):
    pass

def train_func():
    rank = ray.train.get_context().get_world_rank()
    print("last words of rank", rank)
    if rank == 1:
        raise OnlyHere("the loss is not a number")
    import time
    time.sleep(60)
"""

DIES = """
import os, time, ray.train
def train_func():
    if ray.train.get_context().get_world_rank() == 1:
        os.kill(os.getpid(), 11)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("code", "function", "exit_code", "words"),
    [
        (
            RAISES,
            "user:train_func",
            exit_codes.APPLICATION,
            ["rank 1", "OnlyHere: the loss is not a number", "user.py, line 11, in train_func"],
        ),
        (DIES, "user:train_func", exit_codes.APPLICATION, ["rank 1", "worker process has died"]),
        (RAISES, "absent:train_func", exit_codes.CONFIGURATION, ["ModuleNotFoundError: No module named 'absent'"]),
        (
            "import absent_library\ndef f(): pass",
            "user:f",
            exit_codes.CONFIGURATION,
            ["No module named 'absent_library'"],
        ),
    ],
    ids=["raises", "segfault", "no-module", "import-fails"],
)
def test_failure_is_said_in_its_own_words(
    tmp_path: Path, code: str, function: str, exit_code: int, words: list[str]
) -> None:
    job = make_job(framework="Python", train_func=function)
    with Pods(tmp_path, job, source={"user.py": code}) as pods:
        pods.start()
        assert pods.wait_ended() == exit_code, pods.read_log()
        outcome = pods.read_outcome()
        assert outcome.outcome == exit_codes.CLASS_OF_CODE[exit_code]
        for word in words:
            assert word in outcome.message
        assert pods.reports[-1]["state"] == "ERRORED"
        print(outcome, pods.read_log())


def test_refused_before_ray_is_needed(tmp_path: Path) -> None:
    """A function that the source lacks, a storage path that is a file: no worker has to come."""
    job = make_job(train_func="user:absent")
    with Pods(tmp_path / "1", job, source={"user.py": RAISES}) as pods:
        pods.start_head()
        assert pods.wait_ended(timeout=60) == exit_codes.CONFIGURATION
        assert "module 'user' has no attribute 'absent'" in pods.read_outcome().message
    (tmp_path / "file").write_text("")
    with Pods(tmp_path / "2", make_job(), source={"user.py": RAISES}, storage=str(tmp_path / "file")) as pods:
        pods.start_head()
        assert pods.wait_ended(timeout=60) == exit_codes.CONFIGURATION
        message = pods.read_outcome().message
        assert "run.storagePath" in message
        assert "NotADirectoryError" in message


def test_a_ray_that_is_too_old_is_refused_in_words(tmp_path: Path) -> None:
    """Known by its metadata, before anything of it is imported."""
    (tmp_path / "old" / "ray-2.51.1.dist-info").mkdir(parents=True)
    (tmp_path / "old" / "ray-2.51.1.dist-info" / "METADATA").write_text("Name: ray\nVersion: 2.51.1\n")
    with Pods(tmp_path / "pods", make_job(), source={"user.py": RAISES}) as pods:
        pods.start_head(PYTHONPATH=str(tmp_path / "old"))
        assert pods.wait_ended(timeout=60) == exit_codes.CONFIGURATION
        outcome = pods.read_outcome()
        assert outcome.reason == "RayTooOld"
        assert "spec.image holds Ray 2.51.1, and Railhead needs Ray 2.52 or newer" in outcome.message


def test_head_of_ray_that_dies_is_infrastructure(tmp_path: Path) -> None:
    config = {"epochs": 1000, "seconds": 0.2}
    with Pods(tmp_path, make_job(framework="Python", train_loop_config=config), source={"user.py": REPORTING}) as pods:
        pods.start()
        pods.wait_until(lambda: any(r["reports"] >= 1 for r in pods.reports))
        pods.kill_process("gcs_server")
        assert pods.wait_ended(timeout=60) == exit_codes.INFRASTRUCTURE, pods.read_log()
        assert pods.read_outcome().checkpoint is not None
