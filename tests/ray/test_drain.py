"""A worker pod that receives SIGTERM, with a real Ray: the ranks are notified, and a last checkpoint is taken."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from railhead.driver.node.ray_features import parse_version
from tests.ray.pods import RAY_VERSION, Pods, make_job

# No checkpoint but the one just before a node leaves.
TRAINING = """
import os, tempfile, time
import ray.train
from ray.train import Checkpoint

def save(step):
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "step"), "w") as file:
        file.write(str(step))
    return Checkpoint.from_directory(folder)

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    last = ray.train.get_checkpoint()
    first = int(open(os.path.join(last.path, "step")).read()) + 1 if last else 0
    print(f"rank {rank} begins with step {first}", flush=True)
    is_saved = False
    for step in range(first, first + config["steps"]):
        time.sleep(0.2)
        info = ray.train.get_preemption_info()
        if info is not None and not is_saved:
            left = info.deadline_ms / 1000 - time.time()
            print(f"rank {rank} saves step {step}, ranks {info.preempted_ranks} leave, {left:.0f} s left", flush=True)
            ray.train.report({"step": step}, checkpoint=save(step) if rank == 0 else None)
            is_saved = True
        elif first and step >= first + 5:
            return
        elif step == first:
            ray.train.report({"step": step})
    raise ValueError("nobody was asked to end")
"""


@pytest.mark.skipif(
    (parse_version(RAY_VERSION) or (0, 0)) < (2, 58), reason="this Ray does not notify ranks of a drain"
)
def test_a_worker_that_receives_sigterm_leaves_a_last_checkpoint(tmp_path: Path) -> None:
    job = make_job(framework="Python", backend={}, drain_seconds=20, train_loop_config={"steps": 600})
    with Pods(tmp_path, job, source={"user.py": TRAINING}) as pods:
        pods.start()
        pods.wait_until(lambda: any(r["reports"] for r in pods.reports) and pods.has_process("PreemptionWatcher"))
        began = time.monotonic()
        pods.terminate("w1-0")
        pods.wait_until(lambda: bool(pods.reports[-1]["checkpoint"]), timeout=20)
        pods.start_worker(1, round_=1)  # as the operator does as soon as it sees the pod go
        assert pods.wait_ended("w1-0", timeout=40) != 0
        assert time.monotonic() - began < 20 + 10, "it ends within its grace period"
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        log, worker = pods.read_log(), pods.read_log("w1-0")
    saved = int(log.partition("saves step ")[2].split(",")[0])
    assert "s left" in log and f"rank 0 begins with step {saved + 1}" in log
    assert "received SIGTERM: training continues for up to 20 s (worker.drainSeconds)" in worker
    assert "Infrastructure: " in log and "restarting the worker group" in log
    assert pods.read_outcome().outcome == "Succeeded", "max_failures is 0: a node that leaves costs nothing"
