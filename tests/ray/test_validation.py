"""`trainer.validationFunction` with a real Ray: a task next to the workers, its metrics, its errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.job_input import CheckpointInput, RayNode
from tests.ray.pods import OBJECT_STORE, Pods, make_job, make_single_job, share_pod
from tests.waiting import wait_until

TRAINING = """
import os, tempfile
import ray.train

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    for epoch in range(3):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "epoch"), "w") as file:
                file.write(str(epoch))
            made = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"epoch": epoch}, checkpoint=made, validation=rank == 0)

class WrongEpoch(Exception):
    pass

def validate(checkpoint):
    with checkpoint.as_directory() as folder:
        epoch = int(open(os.path.join(folder, "epoch")).read())
    if epoch == 0:  # not the last one: the job ends right after that, before Ray has forwarded the error's line
        raise WrongEpoch("no data for this one")
    return {"score": {1: 0.75, 2: 0.25}[epoch]}
"""
NODE = RayNode(cpus=2, gpus=0, resources={}, object_store_bytes=OBJECT_STORE)


@pytest.mark.slow
def test_metrics_of_a_validation_count_for_the_best_checkpoint(tmp_path: Path) -> None:
    job = make_job(
        framework="Python",
        validation_function="user:validate",
        checkpoint=CheckpointInput(score_attribute="score", score_order="max"),
    )
    job = share_pod(replace(job, ray_node=replace(job.ray_node, worker=NODE)))
    with Pods(tmp_path, job, source={"user.py": TRAINING}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=180) == SUCCEEDED_CODE, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 2
    assert outcome.best_checkpoint is not None, log
    assert outcome.best_checkpoint.index == 1, "the second epoch has the best validated score"
    assert outcome.best_checkpoint.metrics["score"] == "0.75"
    assert "trainer.validationFunction user:validate: user.WrongEpoch: no data for this one (user.py, line " in log


ENDLESS = """
import os, pathlib, tempfile, time
import ray.train

def save(**arguments):
    folder = tempfile.mkdtemp()
    pathlib.Path(folder, "epoch").write_text("0")
    made = ray.train.Checkpoint.from_directory(folder)
    ray.train.report({}, checkpoint=made, delete_local_checkpoint_after_upload=False, **arguments)

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.1)

def train_and_validate():
    save(validation=True)

def validate(checkpoint):
    wait_for(os.environ["GO_ON"])
    return {"score": 1.0}

def train_and_upload():
    storage = ray.train.get_context().get_storage()

    def upload(checkpoint, name):
        wait_for(os.environ["GO_ON"])
        return storage.persist_current_checkpoint(checkpoint, name)

    save(checkpoint_upload_mode=ray.train.CheckpointUploadMode.ASYNC, checkpoint_upload_fn=upload)
"""


@pytest.mark.slow  # tests/unit/driver/head/test_finish_watch.py and test_hang_watch.py have the texts and the times
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("train_and_validate", "Ray Train waits for the validation of checkpoint_"),
        ("train_and_upload", "Ray Train waits for the upload of a checkpoint."),
    ],
)
def test_what_ray_train_waits_for_after_training_is_reported(tmp_path: Path, function: str, words: str) -> None:
    job = make_single_job(train_func=f"user:{function}", validation_function="user:validate")
    job = replace(job, ray_node=replace(job.ray_node, worker=NODE))

    def is_told() -> bool:
        return any(words in report["finishing"] for report in pods.reports)

    with Pods(tmp_path, job, source={"user.py": ENDLESS}) as pods:
        pods.start(workers=1, env={"GO_ON": str(tmp_path / "go-on")})
        wait_until("the report of the wait", is_told, seconds=150, tell=pods.read_log)
        (tmp_path / "go-on").touch()
        assert pods.wait_ended(timeout=60) == SUCCEEDED_CODE, pods.read_log()
    assert pods.reports[-1]["finishing"] == ""
