"""Processes that Ray's memory monitor kills in a running pod, with a real Ray: the driver reports class and rank."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railhead.contract.failure import FailureClass
from tests.ray.pods import Pods, make_job

GIB = 1 << 30
HUNGRY = """
import os, tempfile, time
import ray.train
import ray.train.collective

def train_func():
    with tempfile.TemporaryDirectory() as folder:
        rank = ray.train.get_context().get_world_rank()
        is_hungry = os.environ["RAILHEAD_POD_NAME"] == "w1-0"
        checkpoint = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
        ray.train.report({"epoch": 0}, checkpoint=checkpoint)
    ray.train.collective.barrier()
    if is_hungry:
        print(f"rank {rank} is hungry", flush=True)
    kept = []
    while True:
        time.sleep(0.1)
        if is_hungry and len(kept) < 100:
            kept.append(bytearray(b"x") * (100 << 20))
"""


def share_of_memory(more: int) -> str:
    """The share of this machine's memory in use after allocating that many more bytes."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total, available = (int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    return f"{(total - available + more) / total:.4f}"


@pytest.mark.slow  # 4 GiB
def test_a_rank_that_is_killed_for_memory_is_named_and_its_checkpoint_is_kept(tmp_path: Path) -> None:
    with Pods(tmp_path, make_job(framework="Python"), source={"user.py": HUNGRY}) as pods:
        pods.start_head()
        pods.start_worker(0)
        pods.wait_until(lambda: "joining Ray's head" in pods.read_log("w0-0"))
        # More than the rest of this group needs to start: the monitor checks the entire machine.
        pods.start_worker(1, env={"RAY_memory_usage_threshold": share_of_memory(more=4 * GIB)})
        assert pods.wait_ended() == FailureClass.OUT_OF_MEMORY.exit_code, pods.read_log()
        outcome, log = pods.read_outcome(), pods.read_log()
    assert (outcome.outcome, outcome.reason) == ("OutOfMemory", "OutOfMemory")
    hungry = re.search(r"rank ([01]) is hungry", log)
    assert hungry and outcome.message.startswith(f"rank {hungry[1]}: ") and "running low on memory" in outcome.message
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 0


@pytest.mark.slow
def test_a_node_without_memory_to_start_the_group_is_reported(tmp_path: Path) -> None:
    with Pods(tmp_path, make_job(framework="Python"), source={"user.py": HUNGRY}) as pods:
        pods.start_head()
        pods.start_worker(0)
        pods.start_worker(1, env={"RAY_memory_usage_threshold": "0.01"})
        assert pods.wait_ended() == FailureClass.OUT_OF_MEMORY.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "OutOfMemory" and "running low on memory" in outcome.message
