"""SIGTERM to a worker pod, and then to the head pod, with a real Ray: all ranks are notified, and save a checkpoint."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from railhead.contract.failure import FailureClass
from railhead.driver.container.packages import parse_version
from tests.ray.pods import RAY_VERSION, Pods, make_job

# Its regular checkpoints are 40 minutes of steps apart: none within the test, except one that is uploaded in the
# background from the second start on until the run ends. It stops then.
TRAINING = """
import os, tempfile, threading, time
import ray.train
from railhead.training import attempt, end_notice
from ray.train import Checkpoint, CheckpointUploadMode

ends = threading.Event()

def upload_until_the_end(checkpoint, name):
    ends.wait(120)
    return ray.train.get_context().get_storage().persist_current_checkpoint(checkpoint, name)

def save(step):
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "step"), "w") as file:
        file.write(str(step))
    return Checkpoint.from_directory(folder)

def note(step):
    with open("trained.tmp", "w") as file:
        file.write(str(step))
    os.replace("trained.tmp", os.environ["TRAINED"])

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    last = ray.train.get_checkpoint()
    first = int(open(os.path.join(last.path, "step")).read()) + 1 if last else 0
    print(f"rank {rank} begins with step {first}", flush=True)
    is_saved = False
    for step in range(first, first + config["steps"]):
        time.sleep(0.2)
        if rank == 0:
            note(step)
        info = ray.train.get_preemption_info()
        if info is not None and not is_saved:
            left = info.deadline_ms / 1000 - time.time()
            print(f"rank {rank} saves step {step}, ranks {info.preempted_ranks} leave, {left:.0f} s left", flush=True)
            notice = end_notice() if rank == 0 else None  # what rank 0 knows, the barrier has told to all ranks
            if notice:
                left = notice.deadline - time.time()
                print(f"attempt {attempt()}: ranks {notice.ranks} end in {left:.0f} s", flush=True)
            is_end = len(info.preempted_ranks) == ray.train.get_context().get_world_size()
            if is_end:
                ends.set()
            time.sleep(4 if is_end else 0)  # a large checkpoint: Ray gives a process that receives SIGTERM 3 s
            metrics = {"step": step, "leaving": len(info.preempted_ranks), "left": left}
            ray.train.report(metrics, checkpoint=save(step) if rank == 0 else None)
            is_saved = True
            if is_end:
                return
        elif step == first and last:
            print(f"rank {rank} uploads in the background", flush=True)
            mode, made = CheckpointUploadMode.ASYNC, save(step) if rank == 0 else None
            ray.train.report({"step": step}, made, None, mode, checkpoint_upload_fn=upload_until_the_end)
        elif step == first:
            ray.train.report({"step": step})
        elif step % config["interval"] == 0:
            ray.train.report({"step": step}, checkpoint=save(step) if rank == 0 else None)
    raise ValueError("nobody was asked to end")
"""
DRAIN_SECONDS = 12  # enough for the notice and a checkpoint on a busy machine


@pytest.mark.skipif(
    (parse_version(RAY_VERSION) or (0, 0)) < (2, 58), reason="this Ray does not notify ranks of a drain"
)
def test_a_worker_and_then_the_head_that_receive_sigterm_leave_a_last_checkpoint(tmp_path: Path) -> None:
    config = {"steps": 600, "interval": 40 * 60 * 5}
    job = make_job(
        framework="Python",
        drain_seconds=DRAIN_SECONDS,
        is_drain_required=True,
        end_seconds=60,
        train_loop_config=config,
    )
    trained = tmp_path / "trained"
    with Pods(tmp_path, job, source={"user.py": TRAINING}) as pods:
        pods.start(env={"TRAINED": str(trained)})
        pods.wait_until(lambda: any(r["reports"] for r in pods.reports) and pods.has_process("PreemptionWatcher"))
        began = time.monotonic()
        pods.terminate("w1-0")
        pods.wait_until(lambda: bool(pods.reports[-1]["checkpoint"]), timeout=DRAIN_SECONDS)
        # As the operator does when it sees the pod being deleted.
        pods.start_worker(1, round_=1, env={"TRAINED": str(trained)})
        assert pods.wait_ended("w1-0", timeout=40) != 0
        assert time.monotonic() - began < DRAIN_SECONDS + 10, "it ends within its grace period"
        pods.wait_until(lambda: "rank 0 uploads in the background" in pods.read_log())
        uploaded = int(trained.read_text())
        pods.wait_until(lambda: int(trained.read_text()) > uploaded + 1 and pods.reports[-1]["state"] == "RUNNING")
        done = int(trained.read_text())
        began = time.monotonic()
        pods.terminate("head")
        assert pods.wait_ended() == FailureClass.PREEMPTION.exit_code, pods.read_log()
        assert time.monotonic() - began < 30, "it ends with the checkpoint"
        log, worker = pods.read_log(), pods.read_log("w1-0")
    saved = int(log.partition("saves step ")[2].split(",")[0])
    assert f"rank 0 begins with step {saved + 1}" in log, "max_failures is 0: a node that leaves costs nothing"
    assert f"received SIGTERM: training continues for up to {DRAIN_SECONDS} s (worker.drainSeconds)" in worker
    assert "Infrastructure: " in log and "restarting the worker group" in log
    assert re.search(r"attempt 1: ranks \([01],\) end in [0-9]+ s", log), "railhead.training.end_notice"
    assert re.search(r"attempt 1: ranks \(0, 1\) end in [0-9]+ s", log)
    outcome = pods.read_outcome()
    assert (outcome.outcome, outcome.reason) == ("Preemption", "Terminated"), "it returned, because the run ends"
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 2
    assert int(outcome.metrics["step"]) >= done, "no step from before SIGTERM is lost"
    assert outcome.metrics["leaving"] == "2" and 30 < float(outcome.metrics["left"]) <= 60
