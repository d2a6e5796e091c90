"""An elastic job with a real Ray: starts with fewer workers, grows after a commit, continues when one is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import environment as e
from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.job_input import DatasetInput, ElasticInput, RayNode, ScalingInput
from tests.ray.pods import OBJECT_STORE, Pods, make_job
from tests.ray.test_datasets import write_rows
from tests.s3 import BUCKET, S3, start_s3

# Ends when the test requests it. Each line has the size of the group and its first epoch. Each epoch reads the entire
# dataset; each rank records its rows. A bucket is another dataset, which the first group reads once.
COUNTING = """
import json, os, tempfile, time
import ray, ray.train, ray.train.collective

def train_func(config):
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    first = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    if rank == 0:
        print(f"we are {size} from epoch {first}", flush=True)
    if first == 0:
        shard = ray.train.get_dataset_shard("bucket")
        rows_of_bucket = [int(n) for batch in shard.iter_batches() for n in batch["id"]]
        with open(os.path.join(config["out"], "bucket"), "w") as file:
            json.dump(rows_of_bucket, file)
    epoch = first
    while True:
        time.sleep(0.5)  # else most of the processor time goes into epochs while the test waits for a pod
        shard = ray.train.get_dataset_shard("train")
        batches = list(shard.iter_batches(batch_size=8))
        seen = [int(n) for batch in batches for n in batch["id"]]
        if epoch == 0:
            nodes = {str(node) for batch in batches for node in batch["node"]}
            own = ray.get_runtime_context().get_node_id()
            print("rows are made on the only worker pod:", nodes == {own}, flush=True)
        note = os.path.join(config["out"], f"{size}-{first}-{epoch}-{rank}")
        with open(note, "w") as file:
            json.dump(seen, file)
        os.rename(note, note + ".json")
        is_last = os.path.exists(config["end"])
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if rank == 0 and (epoch % 3 == 2 or is_last):
                with open(os.path.join(folder, "epoch"), "w") as file:
                    file.write(str(epoch))
                made = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch}, checkpoint=made)
        # All ranks leave after the same report: the end is seen one epoch earlier by a broadcast.
        if ray.train.collective.broadcast_from_rank_zero(is_last):
            return
        epoch += 1

def rows():
    import ray.data

    return ray.data.range(40, override_num_blocks=4).map_batches(mark)

def mark(batch):
    import numpy

    node = ray.get_runtime_context().get_node_id()
    return {"id": batch["id"], "node": numpy.array([node] * len(batch["id"]))}
"""
NODE = RayNode(cpus=2, gpus=0, resources={"railhead_worker": 1.0}, object_store_bytes=OBJECT_STORE)


@dataclass(frozen=True)
class Run:
    """A job that starts with one worker, gets a second pod, and loses it again.

    Attributes:
        grown: how many reports had come when there were two workers.
        notes: the folder with what the ranks have seen.
        output: all that the driver has written anywhere.
        s3: the server of the bucket.
    """

    reports: list[dict[str, Any]]
    log: str
    grown: int
    notes: Path
    output: str
    s3: S3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("elastic")
    end = folder / "end"
    config = {"end": str(end), "out": str(folder)}
    scaling = ScalingInput(
        2,
        resources_per_worker={"CPU": 1.0, "railhead_worker": 1.0},
        elastic=ElasticInput(min_workers=1, workers_per_pod=1, start_wait_seconds=1, resize_interval_seconds=0),
    )
    datasets = {
        "train": DatasetInput(function="user:rows"),
        "bucket": DatasetInput(format="parquet", uri=f"s3://{BUCKET}/rows", split=False),
    }
    job = make_job(framework="Python", train_loop_config=config, scaling=scaling, datasets=datasets)
    job = replace(job, ray_node=replace(job.ray_node, worker=NODE))
    with start_s3(folder) as s3, Pods(folder / "pods", job, source={"user.py": COUNTING}) as pods:
        write_rows(s3, folder)
        env = {**s3.environment, "AWS_ENDPOINT_URL": s3.endpoint}
        pods.start(workers=1, env={**env, e.WORKER_PODS: "2"})
        pods.wait_until(lambda: any(r["workers"] == 1 and r["reports"] for r in pods.reports))
        pods.start_worker(1, env=env)
        pods.wait_until(lambda: pods.reports[-1]["workers"] == 2)
        grown = len(pods.reports)
        pods.wait_until(lambda: (pods.reports[-1]["reports"]) >= pods.reports[grown - 1]["reports"] + 4)
        pods.wait_until(lambda: "we are 2 " in pods.read_log())  # its rank 0 may be in the lost pod
        pods.kill("w1-0")
        pods.wait_until(lambda: "Infrastructure: lost node" in pods.read_log())
        pods.wait_until(lambda: pods.reports[-1]["workers"] == 1 and pods.reports[-1]["state"] == "RUNNING")
        end.write_text("")
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        output = pods.read_log() + str(pods.reports) + pods.read_outcome().to_json()
        return Run(pods.reports, pods.read_log(), grown, folder, output, s3)


def test_a_group_starts_small_grows_after_a_commit_and_shrinks_with_a_lost_pod(run: Run) -> None:
    groups = [line.split("we are ")[1] for line in run.log.splitlines() if "we are " in line]
    assert [int(group.split()[0]) for group in groups] == [1, 2, 1], groups
    firsts = [int(group.split("epoch ")[1].split()[0]) for group in groups]
    assert firsts[0] == 0 and firsts == sorted(firsts)
    assert all(first % 3 == 0 for first in firsts), "each starts right after a checkpoint"
    assert "resizing the worker group from 1 to 2 workers" in run.log
    # The resize came right after a commit: no epoch was trained twice for it.
    small = [r["metrics"] for r in run.reports[: run.grown] if r["workers"] == 1]
    before = [int(metrics["epoch"]) for metrics in small if "epoch" in metrics]
    assert max(before) <= firsts[1], (firsts, before)
    assert "Infrastructure: lost node" in run.log


def test_a_group_that_grows_redistributes_the_data(run: Run) -> None:
    seen: dict[tuple[int, int, int], list[list[int]]] = {}
    for path in run.notes.glob("*-*.json"):
        size, first, epoch, _ = (int(part) for part in path.stem.split("-"))
        seen.setdefault((size, first, epoch), []).append(json.loads(path.read_text()))
    # An epoch in which the pod was lost is not complete.
    complete = {key: ranks for key, ranks in seen.items() if len(ranks) == key[0]}
    assert len(seen) - len(complete) <= 1
    assert {size for size, _, _ in complete} == {1, 2}
    for key, ranks in complete.items():
        assert sorted(row for rows in ranks for row in rows) == list(range(40)), f"{key}: each row once"
    alone, together = (sorted(key[2] for key in complete if key[:2] == group) for group in find_first_groups(complete))
    assert max(alone) + 1 >= min(together) > 0, "the larger group resumes after the last checkpoint"


def test_a_bucket_is_read_with_the_secrets_environment(run: Run) -> None:
    assert sorted(json.loads((run.notes / "bucket").read_text())) == list(range(40))
    assert run.s3.secret not in run.output and run.s3.key not in run.output


def test_a_function_that_makes_a_dataset_runs_on_worker_pods(run: Run) -> None:
    """And so do the functions of the user's modules that it names; never on the head."""
    assert "rows are made on the only worker pod: True" in run.log
    assert "\x1b[A" not in run.log, "no progress bars"


def find_first_groups(seen: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Size and first epoch of the first group, and of the one that has grown."""
    groups = sorted({(first, size) for size, first, _ in seen})
    return [(size, first) for first, size in groups[:2]]
