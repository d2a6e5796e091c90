"""Checkpoints with a real Ray: background uploads, retention, and the best one across two attempts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import CheckpointInput
from railhead.contract.outcome import Outcome
from tests.ray.pods import Pods, describe_known, make_job, share_pod

# Four epochs and an error, then one more in the second attempt. Epoch 1 is uploaded in the background,
# once the test has opened the gate; epoch 2 is written into the run's folder by train_func itself.
TRAINING = """
import os, tempfile, time
import ray.train, ray.train.collective
from ray.train import Checkpoint, CheckpointUploadMode

LOSSES = [3.0, 1.0, 2.0, 4.0, 5.0]

def upload(checkpoint, name):
    while not os.path.exists("gate"):
        time.sleep(0.02)
    return ray.train.get_context().get_storage().persist_current_checkpoint(checkpoint, name)

def train_func(config):
    os.chdir(config["folder"])
    rank = ray.train.get_context().get_world_rank()
    last = ray.train.get_checkpoint()
    first = int(open(os.path.join(last.path, "epoch")).read()) + 1 if last else 0
    for epoch in range(first, config["epochs"]):
        mode = {1: CheckpointUploadMode.ASYNC, 2: CheckpointUploadMode.NO_UPLOAD}.get(epoch, CheckpointUploadMode.SYNC)
        folder = tempfile.mkdtemp()
        if epoch == 2:
            folder = os.path.join(ray.train.get_context().get_storage().experiment_fs_path, "mine")
            os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "epoch"), "w") as file:
            file.write(str(epoch))
        ray.train.report(
            {"loss": LOSSES[epoch], "epoch": epoch},
            checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None,
            checkpoint_upload_mode=mode,
            checkpoint_upload_fn=upload if epoch == 1 else None,
        )
        open(f"reported-{epoch}-{rank}", "w").close()
    if first == 0:
        ray.train.collective.barrier()  # the last report of every rank is on its way, or Ray would not commit it
        raise ValueError("once")
"""


def run_attempt(folder: Path, *, epochs: int, known: str, attempt: int, index: int) -> tuple[int, Outcome, Pods]:
    config = {"folder": str(folder), "epochs": epochs}
    checkpoint = CheckpointInput(num_to_keep=2, score_attribute="loss", score_order="min")
    job = share_pod(make_job(framework="Python", train_loop_config=config, checkpoint=checkpoint))
    with Pods(folder / str(attempt), job, source={"user.py": TRAINING}, storage=str(folder / "runs")) as pods:
        pods.start(workers=1, attempt=attempt, checkpoint_index=index, env={"RAILHEAD_KNOWN_CHECKPOINTS": known})
        if attempt == 1:
            pods.wait_until(lambda: (folder / "reported-1-0").exists() and bool(pods.reports[-1]["checkpoint"]))
            assert pods.reports[-1]["checkpoint"]["index"] == 0, "an incomplete upload was reported"
            assert not any(r["reports"] > 1 for r in pods.reports)
            (folder / "gate").touch()
        return pods.wait_ended(), pods.read_outcome(), pods


def read_epochs(run: Path) -> dict[str, int]:
    return {path.parent.name: int(path.read_text()) for path in run.glob("*/epoch")}


@pytest.mark.slow  # test_resume_from.py keeps one checkpoint too; tests/unit/driver/storage has the rest
def test_status_names_committed_checkpoints_and_the_best_of_all_attempts(tmp_path: Path) -> None:
    code, first, pods = run_attempt(tmp_path, epochs=4, known="[]", attempt=1, index=-1)
    assert code == FailureClass.APPLICATION.exit_code, pods.read_log()
    assert first.checkpoint is not None and first.best_checkpoint is not None
    assert pods.reports[-1]["spent"]["checkpointing"] > 0, "Ray hands the times of rank 0 to its controller"
    assert first.checkpoint.index == 3
    assert (first.best_checkpoint.index, first.best_checkpoint.metrics) == (1, {"epoch": "1", "loss": "1"})
    run = tmp_path / "runs" / pods.job.run_name
    assert sorted(read_epochs(run).values()) == [1, 2, 3], "the two best and the newest"
    assert read_epochs(run)["mine"] == 2
    best = first.best_checkpoint
    known = describe_known(replace(first.checkpoint, attempt=1), best)
    code, second, pods = run_attempt(tmp_path, epochs=5, known=known, attempt=2, index=3)
    assert code == SUCCEEDED_CODE, pods.read_log()
    assert second.checkpoint is not None and second.checkpoint.index == 4
    assert second.best_checkpoint == best
    assert pods.reports[-1]["best_checkpoint"] == best.to_dict()
    assert pods.reports[-1]["outcome"]["outcome"] == "Succeeded"
    epochs = read_epochs(run)
    assert sorted(epochs.values()) == [1, 2, 4]
    assert (epochs[Path(second.checkpoint.uri).name], epochs[Path(best.uri).name]) == (4, 1)
