"""Restarts in the same pods, with a real Ray: after a hang; a second hang ends the attempt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import environment as e
from railhead.contract.answer import Answer
from railhead.contract.failure import FailureClass
from tests.ray.pods import Pods, make_job, share_pod

# Both groups hang. The first one's rank 1 leaves a process behind.
HANGS = """
import os, pathlib, subprocess, tempfile, threading
import railhead.training
import ray.train

def wait_for_ever():
    threading.Event().wait()

def does_run(pid):
    try:
        return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    left = pathlib.Path(config["left"])
    is_first = ray.train.get_checkpoint() is None
    if is_first and rank == 1:
        left.write_text(str(subprocess.Popen(["sleep", "3600"]).pid))
    if is_first:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"epoch": 0}, checkpoint=checkpoint)
    railhead.training.progress(7, total=9, tokens=4096)
    if rank == 1 and not is_first:
        print("left behind:", does_run(left.read_text()), flush=True)
    if rank == 1:
        wait_for_ever()
    ray.train.report({"epoch": 1})
"""


def has_hung(report: dict[str, Any]) -> bool:
    return bool(report["restart"]) and report["restart"]["cause"] == "Hang"


def test_a_hang_restarts_the_group_in_the_same_pods_and_a_second_hang_ends_the_attempt(tmp_path: Path) -> None:
    job = share_pod(make_job(framework="Python", train_loop_config={"left": str(tmp_path / "left")}))
    with Pods(tmp_path, job, source={"user.py": HANGS}) as pods:
        # A limit that is lowered while training runs: the first report may take long on a busy machine.
        # The second hang lasts for more than a round of heartbeats.
        pods.answer = lambda report: Answer(
            (13 if has_hung(report) else 4) if report["reports"] else 600, restarts_in_place=3
        )
        pods.start(workers=1, env={e.PROGRESS_DEADLINE: "600"})
        early = pods.run_in_head("stacks")
        pods.wait_until(lambda: "left behind: False" in pods.read_log())  # the second group hangs from here on
        first, second = (json.loads(pods.run_in_head("stacks").stdout) for _ in range(2))
        assert pods.wait_ended(timeout=240) == FailureClass.HANG.exit_code, pods.read_log()
        outcome, log, reports = pods.read_outcome(), pods.read_log(), pods.reports
    assert "no rank trains yet" in early.stderr
    assert [each["place"] for each in first] == [
        "at user.py:30 in train_func, inside ray, in call 1 of ray.train.report",
        "at user.py:7 in wait_for_ever, inside threading",
    ]
    assert second == first and "threading.Event().wait()" in first[1]["text"]
    restarts = [report["restart"] for report in reports if report["restart"]]
    by_number = {restart["number"]: restart for restart in restarts}
    assert [(each["cause"], each["charged"]) for each in by_number.values()] == [("Hang", 0)]
    assert (outcome.restarts, outcome.charged_restarts) == (1, 0)
    assert "left behind: True" not in log
    assert (outcome.outcome, outcome.reason) == ("Hang", "ProgressDeadlineExceeded")
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 0
    assert re.search(r"rank 1 \(pod w[01]-0\) is at user.py:7 in wait_for_ever, inside threading", outcome.message)
    assert re.search(
        r"rank 0 \(pod w[01]-0\) is at user.py:30 in train_func, inside ray, in call 1 of", outcome.message
    )
    steps = [report["steps"] for report in reports if report["steps"]["step"] is not None]
    assert {(each["step"], each["total"]) for each in steps} == {(7, 9)}
    assert "spec.progressDeadlineSeconds" in outcome.message
    assert re.search(r"stack of rank 1 \(pod w[01]-0\):", log)
    assert "threading.Event().wait()" in log


WAITS = """
import ray
import ray.train

@ray.remote(num_gpus=1, num_cpus=0)
def evaluate():
    return 1

def train_func(config):
    ray.train.report({"epoch": 0})
    ray.get(evaluate.remote())
"""


@pytest.mark.slow  # test_contract.py has what the GCS says, tests/unit/driver/ray/test_pending_demand.py the texts
def test_a_task_that_fits_into_no_pod_is_named_in_the_message_of_the_hang(tmp_path: Path) -> None:
    with Pods(tmp_path, share_pod(make_job(framework="Python")), source={"user.py": WAITS}) as pods:
        pods.answer = lambda report: Answer(5 if report["reports"] else 600, restarts_in_place=0)
        pods.start(workers=1, env={e.PROGRESS_DEADLINE: "600"})
        assert pods.wait_ended(timeout=120) == FailureClass.HANG.exit_code, pods.read_log()
        message = pods.read_outcome().message
    assert re.search(r"Ray waits to start \d tasks? or actors? that needs? 1 GPU, which no pod has\. ", message), (
        message
    )
