"""Training that hangs, with a real Ray: detected, explained by the ranks' stacks, and ended."""

from __future__ import annotations

import re
from pathlib import Path

from railhead.contract import environment as e
from railhead.contract.failure import FailureClass
from railhead.contract.report import DEADLINE
from tests.ray.pods import Pods, make_job, share_pod

HANGS = """
import tempfile, threading
import ray.train

def wait_for_ever():
    threading.Event().wait()

def train_func():
    rank = ray.train.get_context().get_world_rank()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
        ray.train.report({"epoch": 0}, checkpoint=checkpoint)
    if rank == 1:
        wait_for_ever()
    ray.train.report({"epoch": 1})
"""


def test_a_rank_that_hangs_ends_the_attempt_with_the_stacks_of_all(tmp_path: Path) -> None:
    with Pods(tmp_path, share_pod(make_job(framework="Python")), source={"user.py": HANGS}) as pods:
        # A limit that is lowered while training runs: the first report may take long on a busy machine.
        pods.answer = lambda report: {DEADLINE: 2 if report["reports"] else 600}
        pods.start(workers=1, env={e.PROGRESS_DEADLINE: "600"})
        assert pods.wait_ended(timeout=240) == FailureClass.HANG.exit_code, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
    assert (outcome.outcome, outcome.reason) == ("Hang", "ProgressDeadlineExceeded")
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 0
    assert re.search(r"rank 1 \(pod w[01]-0\) is at user.py:6 in wait_for_ever, inside threading", outcome.message)
    assert re.search(r"rank 0 \(pod w[01]-0\) is at user.py:15 in train_func, inside ray", outcome.message)
    assert "spec.progressDeadlineSeconds" in outcome.message
    assert re.search(r"stack of rank 1 \(pod w[01]-0\):", log)
    assert "threading.Event().wait()" in log
