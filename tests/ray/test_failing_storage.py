"""Uploads and commits that fail or are interrupted, with a real Ray: one fit(), and nothing is left."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import ScalingInput
from railhead.contract.snapshot import SNAPSHOT
from railhead.driver.storage.unfinished_uploads import RECORDS
from tests.full_disk import mount_full_disk
from tests.ray.pods import Pods, make_job, make_single_job, share_pod

# The first group fills the disk in its second upload, the second one removes the controller's snapshot, the third
# one repairs it.
TRAINING = """
import errno, os, tempfile
import ray.train
from ray.train import Checkpoint
from ray.train.v2._internal.execution import storage

def fill_disk(source, destination, **_):
    with open(os.path.join(destination, "part"), "w") as file:
        file.write("a part")
    raise OSError(errno.ENOSPC, "No space left on device")

def report(epoch):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "epoch"), "w") as file:
            file.write(str(epoch))
        ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))

def train_func(config):
    last = ray.train.get_checkpoint()
    first = int(open(os.path.join(last.path, "epoch")).read()) + 1 if last else 0
    print(f"begins with epoch {first}", flush=True)
    if first == 0:
        report(0)
        storage._pyarrow_fs_copy_files = fill_disk
    snapshot = ray.train.get_context().get_storage().checkpoint_manager_snapshot_path
    if first == 1:
        os.rename(snapshot, snapshot + ".old")
        os.mkdir(snapshot)
    if first == 2:
        os.rmdir(snapshot)
    report(first + (first == 0))
"""


@pytest.mark.slow
def test_failing_storage_restarts_the_group_in_one_fit_and_leaves_nothing(tmp_path: Path) -> None:
    scaling = ScalingInput(1, use_gpu=False, resources_per_worker={"CPU": 1.0})
    job = make_job(framework="Python", worker_pods=1, scaling=scaling)
    runs = tmp_path / "runs"
    with Pods(tmp_path, job, source={"user.py": TRAINING}, storage=str(runs)) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        log, reports = pods.read_log(), pods.reports
    run = runs / job.run_name
    assert [f"begins with epoch {epoch}\n" in log for epoch in range(4)] == [True, True, True, False]
    full = f"run.storagePath: a checkpoint could not be written: rank 0: {run}: OSError: [Errno 28] No space left on"
    warnings = [report["warning"] for report in reports if report["warning"]]
    assert {warning["reason"] for warning in warnings} == {"CheckpointNotWritten"}
    assert warnings[0]["message"].startswith(full), warnings
    assert reports[-1]["warning"] is None, "the last commit succeeded"
    assert log.count("Infrastructure: run.storagePath: a checkpoint could not be written: ") == 2
    assert find_folders(run) == find_listed(run) and len(find_listed(run)) == 3
    assert log.count("removed what unfinished uploads had left: checkpoint_") == 1
    assert not list((run / RECORDS).iterdir())


def test_an_attempt_that_finds_a_full_disk_waits_until_it_has_room(tmp_path: Path) -> None:
    """The head alone: what it needs of the storage comes before it waits for worker pods."""
    with mount_full_disk(tmp_path / "runs") as disk:
        job = make_single_job(train_func="user:train_func")
        with Pods(tmp_path, job, source={"user.py": "def train_func(): pass"}, storage=str(disk.path)) as pods:
            pods.start_head()
            wait_for_the_warning(pods)
            assert "Ray Train is imported" not in pods.read_log()
            disk.make_room()
            pods.wait_until(lambda: "0 of 1 worker pods have joined" in pods.read_log())
            pods.wait_until(lambda: pods.reports[-1]["warning"] is None)


@pytest.mark.slow  # the head waits for its storage as above
def test_an_attempt_that_has_found_a_full_disk_trains(tmp_path: Path) -> None:
    with mount_full_disk(tmp_path / "runs") as disk:
        job = make_single_job(train_func="user:train_func")
        with Pods(tmp_path, job, source={"user.py": "def train_func(): pass"}, storage=str(disk.path)) as pods:
            pods.start(workers=1)
            wait_for_the_warning(pods)
            disk.make_room()
            assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
    assert pods.reports[-1]["warning"] is None


def wait_for_the_warning(pods: Pods) -> None:
    """Waits until a report says that the attempt waits, and why."""
    pods.wait_until(lambda: any(report["warning"] for report in pods.reports))
    found = next(report for report in pods.reports if report["warning"])
    assert (found["state"], found["warning"]["reason"]) == ("STARTING", "StorageUnreachable")
    assert "No space left on device" in found["warning"]["message"]
    assert "the attempt waits for it, and training begins afterwards" in pods.read_log()


def test_sigterm_ends_an_attempt_that_waits_for_its_storage(tmp_path: Path) -> None:
    with mount_full_disk(tmp_path / "runs") as disk:
        job = make_single_job(train_func="user:train_func", end_seconds=600)
        with Pods(tmp_path, job, source={"user.py": "def train_func(): pass"}, storage=str(disk.path)) as pods:
            pods.start_head()
            pods.wait_until(lambda: any(report["warning"] for report in pods.reports))
            pods.terminate("head")
            assert pods.wait_ended(timeout=10) == FailureClass.PREEMPTION.exit_code, pods.read_log()


def find_folders(run: Path) -> set[str]:
    return {path.name for path in run.glob("checkpoint_*") if path.is_dir()}


def find_listed(run: Path) -> set[str]:
    return {each["checkpoint_dir_name"] for each in json.loads((run / SNAPSHOT).read_text())["checkpoint_results"]}


# In the first group, the process of rank 1 dies in the middle of an upload in the background.
KILLED = """
import os, signal, tempfile
import ray.train, ray.train.collective
from ray.train import Checkpoint, CheckpointUploadMode

def upload_a_part(checkpoint, name):
    storage = ray.train.get_context().get_storage()
    if ray.train.get_context().get_world_rank() == 1:
        os.makedirs(storage.build_checkpoint_path_from_name(name), exist_ok=True)
        open(os.path.join(storage.build_checkpoint_path_from_name(name), "part"), "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return storage.persist_current_checkpoint(checkpoint, name)

def report(**options):
    folder = tempfile.mkdtemp()
    open(os.path.join(folder, f"shard-{ray.train.get_context().get_world_rank()}"), "w").close()
    ray.train.report({}, checkpoint=Checkpoint(folder), checkpoint_upload_mode=CheckpointUploadMode.ASYNC, **options)

def train_func():
    report()
    if len(ray.train.get_all_reported_checkpoints()) == 1:
        report(checkpoint_upload_fn=upload_a_part)
        ray.train.collective.barrier()
"""


@pytest.mark.slow
def test_the_next_group_removes_what_a_killed_process_was_uploading_in_the_background(tmp_path: Path) -> None:
    job = share_pod(make_job(framework="Python", max_failures=1))
    runs = tmp_path / "runs"
    with Pods(tmp_path, job, source={"user.py": KILLED}, storage=str(runs)) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        log = pods.read_log()
    run = runs / job.run_name
    assert log.count("removed what unfinished uploads had left: checkpoint_") == 1
    assert find_folders(run) == find_listed(run) and len(find_listed(run)) == 2
    assert all(sorted(os.listdir(run / name)) == ["shard-0", "shard-1"] for name in find_listed(run))
    assert not list((run / RECORDS).iterdir())
