"""An elastic job with a real Ray: starts with fewer, takes in more after a commit, goes on when one is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from railhead.contract import environment as e
from railhead.contract import exit_codes
from railhead.contract.job_input import JobInput
from tests.ray.pods import OBJECT_STORE, Pods, make_job

# Ends when the test says so. Each line tells from where, and how many there are.
COUNTING = """
import os, tempfile, time
import ray.train

def train_func(config):
    context = ray.train.get_context()
    first = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    if context.get_world_rank() == 0:
        print(f"we are {context.get_world_size()} from epoch {first}", flush=True)
    epoch = first
    while True:
        time.sleep(0.3)
        is_last = os.path.exists(config["end"])
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if context.get_world_rank() == 0 and (epoch % 3 == 2 or is_last):
                with open(os.path.join(folder, "epoch"), "w") as file:
                    file.write(str(epoch))
                made = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch}, checkpoint=made)
        # All ranks leave after the same report: the end is seen one epoch earlier by a broadcast.
        if ray.train.collective.broadcast_from_rank_zero(is_last):
            return
        epoch += 1
"""
NODE = {"cpus": 1, "gpus": 0, "resources": {"railhead_worker": 1.0}, "objectStoreBytes": OBJECT_STORE}


def make_elastic_job(config: dict[str, str]) -> JobInput:
    job = make_job(framework="Python", backend={}, train_loop_config=config)
    scaling = {
        "minWorkers": 1,
        "maxWorkers": 2,
        "workersPerPod": 1,
        "startWaitSeconds": 1,
        "resizeIntervalSeconds": 0,
        "resourcesPerWorker": {"CPU": 1.0, "railhead_worker": 1.0},
    }
    return replace(job, scaling=scaling, ray_node={**job.ray_node, "worker": NODE})


def test_a_group_starts_small_grows_after_a_commit_and_shrinks_with_a_lost_pod(tmp_path: Path) -> None:
    end = tmp_path / "end"
    source = {"user.py": COUNTING.replace("import ray.train\n", "import ray.train, ray.train.collective\n", 1)}
    with Pods(tmp_path, make_elastic_job({"end": str(end)}), source=source) as pods:
        pods.start(workers=1, env={e.WORKER_PODS: "2"})
        pods.wait_until(lambda: any(r["workers"] == 1 and r["reports"] for r in pods.reports), timeout=120)
        pods.start_worker(1)
        pods.wait_until(lambda: pods.reports[-1]["workers"] == 2, timeout=120)
        grown = len(pods.reports)
        pods.wait_until(lambda: (pods.reports[-1]["reports"]) >= pods.reports[grown - 1]["reports"] + 4, timeout=120)
        pods.kill("w1-0")
        pods.wait_until(
            lambda: pods.reports[-1]["workers"] == 1 and pods.reports[-1]["state"] == "RUNNING", timeout=120
        )
        end.write_text("")
        assert pods.wait_ended(timeout=120) == exit_codes.SUCCEEDED, pods.read_log()
        log = pods.read_log()
    groups = [line.split("we are ")[1] for line in log.splitlines() if "we are " in line]
    assert [int(group.split()[0]) for group in groups] == [1, 2, 1], groups
    firsts = [int(group.split("epoch ")[1].split()[0]) for group in groups]
    assert firsts[0] == 0 and firsts == sorted(firsts)
    assert all(first % 3 == 0 for first in firsts), "each begins right after a checkpoint"
    assert "resized from 1 to 2 workers" in log
    # The resize came right after a commit: no epoch was trained twice for it.
    epochs = [r["metrics"].get("epoch") for r in pods.reports]
    before = [int(epoch) for epoch in epochs[:grown] if epoch is not None]
    assert firsts[1] - 1 <= max(before) <= firsts[1], (firsts, before)
    assert "Infrastructure: lost node" in log


# Each epoch goes over the whole dataset; what each rank has seen of it is noted with the size of the group.
READING = """
import json, os, tempfile
import ray.train

def train_func(config):
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    first = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    epoch = first
    while True:
        shard = ray.train.get_dataset_shard("train")
        seen = [int(n) for batch in shard.iter_batches(batch_size=8) for n in batch["id"]]
        with open(os.path.join(config["out"], f"{epoch:03d}-{size}-{rank}.json"), "w") as file:
            json.dump(seen, file)
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if rank == 0:
                with open(os.path.join(folder, "epoch"), "w") as file:
                    file.write(str(epoch))
                made = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch}, checkpoint=made)
        if size == 2 and epoch >= first + 1:
            return
        epoch += 1

def rows():
    import ray.data

    return ray.data.range(40, override_num_blocks=4)
"""


def test_a_group_that_grows_shares_the_data_anew(tmp_path: Path) -> None:
    job = make_elastic_job({"out": str(tmp_path)})
    job = replace(job, datasets={"train": {"function": "user:rows"}})
    job.ray_node["worker"] = {**NODE, "cpus": 2}
    with Pods(tmp_path / "pods", job, source={"user.py": READING}) as pods:
        pods.start(workers=1, env={e.WORKER_PODS: "2"})
        pods.wait_until(lambda: any(r["workers"] == 1 and r["reports"] for r in pods.reports), timeout=120)
        pods.start_worker(1)
        assert pods.wait_ended(timeout=240) == exit_codes.SUCCEEDED, pods.read_log()
    seen: dict[tuple[int, int], list[int]] = {}
    for path in sorted(tmp_path.glob("*.json")):
        epoch, size, _ = (int(part) for part in path.stem.split("-"))
        seen.setdefault((size, epoch), []).extend(json.loads(path.read_text()))
    assert {size for size, _ in seen} == {1, 2}
    for (size, epoch), rows in seen.items():
        assert sorted(rows) == list(range(40)), f"epoch {epoch} of {size}: each row once"
    alone, together = (sorted(epoch for size, epoch in seen if size == wanted) for wanted in (1, 2))
    assert max(alone) + 1 >= min(together) > 0, "the larger group goes on after the last checkpoint"
