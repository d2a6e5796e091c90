"""Storage that fails under a rank and under Ray Train's controller, with a real Ray: one fit(), and nothing is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from railhead.driver.storage.leftovers import RECORDS
from railhead.driver.storage.snapshot import FILE
from tests.ray.pods import Pods, make_job

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
    scaling = {"numWorkers": 1, "useGPU": False, "resourcesPerWorker": {"CPU": 1.0}}
    job = make_job(framework="Python", backend={}, worker_pods=1, scaling=scaling)
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
    listed = {each["checkpoint_dir_name"] for each in json.loads((run / FILE).read_text())["checkpoint_results"]}
    assert {path.name for path in run.glob("checkpoint_*") if path.is_dir()} == listed and len(listed) == 3
    assert "removed what failed uploads had left: checkpoint_" in log
    assert not list((run / RECORDS).iterdir())
