"""Training has succeeded, the operator has not heard of it, and the head pod is gone, with a real Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from railhead.driver.storage.claims import OUTCOME
from tests.ray.pods import Pods, make_single_job

TRAINING = """
import os, tempfile
import ray.train
from ray.train import Checkpoint

def train_func():
    print("trains", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ray.train.report({"loss": 0.5}, checkpoint=Checkpoint.from_directory(folder))
"""


@pytest.mark.slow  # in test_failures.py the next attempt does so too, after a head whose reports were answered
def test_the_next_attempt_succeeds_without_training(tmp_path: Path) -> None:
    job, storage = make_single_job(), tmp_path / "runs"
    with Pods(tmp_path / "1", job, source={"user.py": TRAINING}, storage=str(storage)) as first:
        first.start(workers=1)
        first.cut_off()
        first.wait_until((storage / job.run_name / OUTCOME).exists)  # the head tries its last report for a minute
        first.kill("head")
        assert "trains" in first.read_log()
        wanted = first.read_outcome()
    with Pods(tmp_path / "2", job, source={"user.py": TRAINING}, storage=str(storage)) as second:
        second.start_head(attempt=2)
        assert second.wait_ended() == SUCCEEDED_CODE, second.read_log()
        outcome, log, last = second.read_outcome(), second.read_log(), second.reports[-1]
    assert "trains" not in log and "Ray Train is imported" not in log
    assert "Succeeded: an earlier attempt had finished training before its head was lost" in log
    assert wanted.checkpoint is not None and wanted.metrics == {"loss": "0.5"}
    assert (outcome.checkpoint, outcome.metrics, outcome.reports) == (wanted.checkpoint, wanted.metrics, 1)
    assert (last["state"], last["outcome"]["outcome"], last["metrics"]) == ("FINISHED", "Succeeded", {"loss": "0.5"})
    assert last["run_uri"] == str(storage / job.run_name)
