"""Runs whose folder was damaged, read again by a real Ray: the newest intact checkpoint, and a warning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport

from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import ScalingInput
from railhead.contract.snapshot import SNAPSHOT
from railhead.driver.fit.acquire_run import restore_run
from railhead.driver.ray.checkpoint_manager import list_fields
from railhead.driver.storage.claims import Claimant, take_run
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.unfinished_uploads import finish_commit
from tests.ray.pods import Pods, make_job
from tests.s3 import S3, start_s3

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")

USER = """
import os, tempfile
import ray.train
from ray.train import Checkpoint

def train_func(config):
    last = ray.train.get_checkpoint()
    first = 0
    if last:
        with last.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    print(f"run {config['name']} begins with epoch {first}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "epoch"), "w") as file:
            file.write(str(first))
        ray.train.report({"epoch": first}, checkpoint=Checkpoint.from_directory(folder))
"""
SCRIPT = """
import os, sys
import user
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

for name in sys.argv[1:]:
    DataParallelTrainer(
        user.train_func,
        train_loop_config={"name": name},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name=name, storage_path=os.environ["RAILHEAD_STORAGE_PATH"]),
    ).fit()
"""
SOURCE = {"user.py": USER, "train.py": SCRIPT}
ONE_WORKER = ScalingInput(1, use_gpu=False, resources_per_worker={"CPU": 1.0})


def make_run(storage_path: str, name: str) -> RunFolder:
    """Three commits by Ray's own manager, which keeps two of them."""
    storage = StorageContext(storage_path=storage_path, experiment_dir_name=name)
    manager = CheckpointManager(CheckpointConfig(num_to_keep=2), storage)
    folder = RunFolder(storage.storage_filesystem, storage.experiment_fs_path)

    async def commit(epoch: int) -> None:
        folder.write(f"c{epoch}/epoch", str(epoch).encode())
        folder.write(f"c{epoch}/weights", b"of this epoch")
        checkpoint = Checkpoint(path=folder.find(f"c{epoch}"), filesystem=folder.filesystem)
        manager.after_report(_TrainingReport(checkpoint, {"epoch": epoch}, False), [{"epoch": epoch}])
        finish_commit(folder, check=lambda: None)

    for epoch in range(3):
        asyncio.run(commit(epoch))
    return folder


def cut_off(folder: RunFolder) -> None:
    folder.write(SNAPSHOT, (folder.read(SNAPSHOT) or b"")[:-20])


def empty(folder: RunFolder) -> None:
    for name in folder.list_names("c2"):
        folder.delete(f"c2/{name}")


def hide_all(folder: RunFolder) -> None:
    """Neither snapshot nor copy: as a run of an older version whose snapshot was truncated."""
    folder.write(SNAPSHOT, b"")
    folder.filesystem.delete_dir(folder.find(".railhead"))


# The damage, the epoch that training starts with, and the warning.
DAMAGES: dict[str, tuple[Callable[[RunFolder], object], int, str]] = {
    "well": (lambda folder: None, 3, ""),
    "cut-off": (cut_off, 3, f"{SNAPSHOT} cannot be read"),
    "empty": (lambda folder: folder.write(SNAPSHOT, b""), 3, f"{SNAPSHOT} cannot be read (it is empty)"),
    "gone": (lambda folder: folder.delete(SNAPSHOT), 3, f"{SNAPSHOT} is gone"),
    "missing": (lambda folder: folder.filesystem.delete_dir(folder.find("c2")), 2, "c2 is gone or has lost its files"),
    "emptied": (empty, 2, "c2 is gone or has lost its files"),
    "nothing-left": (hide_all, 0, "no checkpoint is known, so training starts from scratch"),
}


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with start_s3(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def test_damage_in_a_bucket_is_detected_and_repaired_as_on_a_path(s3: S3) -> None:
    for name, (damage, epoch, message) in DAMAGES.items():
        folder = make_run(s3.build_uri("runs"), name)
        take_run(folder, Claimant("mine"), attempt=1)
        damage(folder)
        latest, warning = restore_run(folder, fields=list_fields(), known={}, commits=0)
        assert latest == (f"c{epoch - 1}" if epoch else None), name
        assert message in (warning.message if warning else ""), name
        assert restore_run(folder, fields=list_fields(), known={}, commits=0) == (latest, None)


@pytest.mark.slow
def test_each_run_in_a_bucket_resumes_from_its_newest_intact_checkpoint(s3: S3, tmp_path: Path) -> None:
    run_all(s3.build_uri("runs"), s3.environment, tmp_path, names=["cut-off", "emptied"])


@pytest.mark.slow
def test_each_run_resumes_from_its_newest_intact_checkpoint(tmp_path: Path) -> None:
    run_all(str(tmp_path / "runs"), {}, tmp_path, names=list(DAMAGES))


def run_all(path: str, env: dict[str, str], tmp_path: Path, *, names: list[str]) -> None:
    """One fit() for each of them, in one cluster."""
    job = make_job(
        entrypoint=["python", "train.py", *names], framework="", train_func="", worker_pods=1,
        scaling=ONE_WORKER, storage_path="" if path.startswith("/") else path,
    )  # fmt: skip
    for name in names:
        # A run that the script names is in a folder of the job's.
        DAMAGES[name][0](make_run(build_checkpoint_uri(path, job.run_name), name))
    with Pods(tmp_path, job, source=SOURCE, storage=path if path.startswith("/") else None) as pods:
        pods.start(workers=1, env=env)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        log = pods.read_log()
    for name in names:
        _, epoch, message = DAMAGES[name]
        assert f"run {name} begins with epoch {epoch}\n" in log, name
        assert message in log, name
    assert log.count("; the run resumes from c") == len({*names} - {"well", "nothing-left"})


@pytest.mark.slow
def test_an_older_checkpoint_is_reported_under_a_new_number_and_with_a_warning(tmp_path: Path) -> None:
    job = make_job(
        framework="Python",
        worker_pods=1,
        scaling=ONE_WORKER,
        train_loop_config={"name": "mine"},
    )
    path = str(tmp_path / "runs")
    folder = make_run(path, job.run_name)
    empty(folder)
    known = [{"name": "c2", "run": job.run_name, "index": 2, "time": "2026-01-01T00:00:00Z", "attempt": 1}]
    with Pods(tmp_path, job, source=SOURCE, storage=path) as pods:
        pods.start(workers=1, attempt=2, checkpoint_index=2, env={"RAILHEAD_KNOWN_CHECKPOINTS": json.dumps(known)})
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        last, outcome, log = pods.reports[-1], pods.read_outcome(), pods.read_log()
    assert "run mine begins with epoch 2\n" in log
    assert last["warning"]["reason"] == "CheckpointMissing"
    assert last["warning"]["message"].endswith("the run resumes from c1")
    assert last["resumed_from"] == {"uri": f"{path}/{job.run_name}/c1"}
    reported = {r["checkpoint"]["index"]: Path(r["checkpoint"]["uri"]).name for r in pods.reports if r["checkpoint"]}
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 4
    assert reported.get(3, "c1") == "c1" and min(reported) >= 3, "numbers are never reused"


# test_resume_from.py ends before workers start too; tests/unit/driver/storage/test_resumable.py has the error.
@pytest.mark.slow
def test_a_job_whose_checkpoints_are_all_lost_ends_before_workers_start(tmp_path: Path) -> None:
    job = make_job(framework="Python")
    folder = make_run(str(tmp_path / "runs"), job.run_name)
    hide_all(folder)
    with Pods(tmp_path, job, source=SOURCE, storage=str(tmp_path / "runs")) as pods:
        pods.start_head(attempt=2, checkpoint_index=2)
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "CheckpointsLost"
    assert outcome.message.startswith(f"run.storagePath: {SNAPSHOT} cannot be read (it is empty), and none of the ")
    assert folder.read("c2/weights") == b"of this epoch", "the remains are kept for inspection"
