"""spec.datasets with a real Ray: every row once, all formats, and the error messages.

The elastic job of test_elastic.py has datasets too.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import DatasetInput, JobInput
from railhead.contract.outcome import Outcome
from tests.ray.pods import Pods, make_job, share_pod
from tests.s3 import BUCKET, S3, start_s3

ROWS = 101
SLOT = {"railhead_worker": 1.0}


def make_data_job(datasets: dict[str, DatasetInput], *, free_cpus: int = 1, **changes: Any) -> JobInput:
    """Two pods with one worker each, as with spec.datasets: a CPU of each pod is Ray Data's."""
    job = make_job(framework="Python", datasets=datasets, **changes)
    job.scaling.resources_per_worker.update(SLOT)
    worker = replace(job.ray_node.worker, cpus=1 + free_cpus, resources=SLOT)
    return replace(job, ray_node=replace(job.ray_node, worker=worker))


# Records the rows of each rank; `queue.py` of the source must not shadow the standard library's.
SEEING = """
import json, os, ray, ray.train

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    seen = {"node": ray.get_runtime_context().get_node_id()}
    for name, column in config["columns"].items():
        if rank and name in config["once"]:
            continue
        for epoch in range(2 if name in ("rows", "json") else 1):
            shard = ray.train.get_dataset_shard(name)
            rows = [row for batch in shard.iter_batches(batch_size=16) for row in read(batch, column)]
            seen.setdefault(name, []).append(rows)
    with open(os.path.join(config["out"], f"{rank}.json"), "w") as file:
        json.dump(seen, file)

def read(batch, column):
    values = batch[column]
    if column == "image":
        return [[list(value.shape), int(value.max())] for value in values]
    return [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
"""
MADE = """
import ray.data
from steps import mark

def build(config):
    return ray.data.range(config["rows"], override_num_blocks=6).map_batches(mark)
"""
STEPS = """
import numpy, ray

def mark(batch):
    node = ray.get_runtime_context().get_node_id()
    return {"text": numpy.array([f"{number} {node}" for number in batch["id"]])}
"""


def write_files(folder: Path) -> dict[str, str]:
    """ROWS rows, or 4 images, in each format; path by name of the dataset."""
    for name in ("rows", "json", "images", "binary"):
        (folder / name).mkdir(parents=True)
    for part in range(3):
        with open(folder / "rows" / f"{part}.csv", "w", newline="") as file:
            csv.writer(file).writerows([["id"], *([n] for n in range(part, ROWS, 3))])
        lines = [json.dumps({"id": n}) for n in range(part, ROWS, 3)]
        (folder / "json" / f"{part}.json").write_text("\n".join(lines))
    (folder / "rows.txt").write_text("\n".join(str(n) for n in range(ROWS)))
    for n in range(4):
        Image.fromarray(np.full((8, 6, 3), n, dtype=np.uint8)).save(folder / "images" / f"{n}.png")
        (folder / "binary" / f"{n}.bin").write_bytes(f"file {n}".encode())
    paths = {name: str(folder / name) for name in ("rows", "json", "images", "binary")}
    return {**paths, "text": str(folder / "rows.txt")}


def write_rows(s3: S3, folder: Path) -> None:
    """Puts 40 rows into a bucket, in two files."""
    for part in range(2):
        pq.write_table(pa.table({"id": list(range(part, 40, 2))}), folder / "part")
        s3.put(f"rows/{part}.parquet", (folder / "part").read_bytes())


DATASETS = {
    "rows": DatasetInput(format="csv"),
    "json": DatasetInput(format="json", split=False),
    "text": DatasetInput(format="text", split=False),
    "images": DatasetInput(format="images", split=False),
    "binary": DatasetInput(format="binary", split=False),
    "made": DatasetInput(function="data:build", split=False),
    "bucket": DatasetInput(format="parquet", uri=f"s3://{BUCKET}/rows", split=False),
}
COLUMNS = {
    "rows": "id",
    "json": "id",
    "bucket": "id",
    "text": "text",
    "images": "image",
    "binary": "bytes",
    "made": "text",
}
# Read by rank 0 only: a dataset that is not split is the same for each rank, and needs no process of its own.
ONCE = ("text", "images", "binary", "made", "bucket")


@dataclass(frozen=True)
class Seen:
    """A job with a dataset of each format.

    Attributes:
        ranks: what each rank has seen, by dataset and epoch.
        output: all that the driver has written anywhere.
        s3: the server of one of the datasets.
    """

    ranks: list[dict[str, Any]]
    log: str
    output: str
    s3: S3


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("formats")
    paths = write_files(folder / "data")
    datasets = {name: replace(each, uri=paths.get(name, each.uri)) for name, each in DATASETS.items()}
    config = {"columns": COLUMNS, "once": ONCE, "out": str(folder), "rows": 60}
    source = {"user.py": SEEING, "data.py": MADE, "steps.py": STEPS, "queue.py": "raise RuntimeError('mine')"}
    job = share_pod(make_data_job(datasets, train_loop_config=config))
    both = {name: 2 * value for name, value in SLOT.items()}
    worker = replace(job.ray_node.worker, resources=both)
    job = replace(job, ray_node=replace(job.ray_node, worker=worker))
    with start_s3(folder) as s3, Pods(folder / "pods", job, source=source) as pods:
        write_rows(s3, folder)
        pods.start(workers=1, env={**s3.environment, "AWS_ENDPOINT_URL": s3.endpoint})
        assert pods.wait_ended(timeout=240) == SUCCEEDED_CODE, pods.read_log()
        output = pods.read_log() + str(pods.reports) + pods.read_outcome().to_json()
        ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]
        return Seen(ranks, pods.read_log(), output, s3)


# The job of test_elastic.py has the rows that are split, the bucket and the function;
# tests/unit/driver/fit/test_datasets.py has the reader of each format.
@pytest.mark.slow
def test_every_row_is_seen_once_per_epoch_in_every_format(seen: Seen) -> None:
    for epoch in (0, 1):
        mine, others = (set(rank["rows"][epoch]) for rank in seen.ranks)
        assert (len(mine), len(others)) == (50, 50), "equal parts: the remainder goes to no rank"
        assert len(mine | others) == 100 and mine | others <= set(range(ROWS))
        for rank in seen.ranks:
            assert len(rank["rows"][epoch]) == 50
            assert sorted(rank["json"][epoch]) == list(range(ROWS))
    first = seen.ranks[0]
    assert sorted(first["text"][0]) == sorted(str(n) for n in range(ROWS))
    assert sorted(first["images"][0]) == [[[8, 6, 3], n] for n in range(4)]
    assert sorted(first["binary"][0]) == [f"file {n}" for n in range(4)]

    made = [line.split() for line in first["made"][0]]
    assert sorted(int(number) for number, _ in made) == list(range(60))
    # The functions of the user's modules have run in tasks, on the worker pods and never on the head.
    assert {node for _, node in made} == {rank["node"] for rank in seen.ranks}
    assert "\x1b[A" not in seen.log, "no progress bars"


@pytest.mark.slow  # the job of test_elastic.py reads it too
def test_a_bucket_is_read_with_the_secrets_environment(seen: Seen) -> None:
    assert sorted(seen.ranks[0]["bucket"][0]) == list(range(40))
    assert seen.s3.secret not in seen.output and seen.s3.key not in seen.output


# Each rank's first try waits with its shard until the test has killed its feeder. The second one reads all of it,
# and reaches invalid data.
FAILING = """
import os, time
import ray, ray.data, ray.train

class OnlyHere(Exception):
    def __init__(self, row, why):
        super().__init__(f"row {row} is {why}")

def check(row):
    if row["id"] == 30:
        raise OnlyHere(30, "odd")
    return row

def good(config):
    return ray.data.range(40, override_num_blocks=4)

def build(config):
    return ray.data.range(50).map(check)

def raises():
    raise LookupError("no such table")

def returns():
    return [1, 2, 3]

def train_func(config):
    from railhead.driver.messages.exception_text import describe_exception

    shards = {name: ray.train.get_dataset_shard(name) for name in ("good", "pictures", "train")}
    started = os.path.join(config["out"], f"started-{ray.train.get_context().get_world_rank()}")
    if not os.path.exists(started):
        open(started, "w").close()
        while not os.path.exists(os.path.join(config["out"], "killed")):
            time.sleep(0.05)
    seen = sum(len(batch["id"]) for batch in shards["good"].iter_batches(batch_size=4))
    print(f"has seen {seen}", flush=True)
    try:
        read(shards["pictures"])
    except ValueError as error:
        print(f"pictures: {describe_exception(error)}", flush=True)
    read(shards["train"])

def read(shard):
    for batch in shard.iter_batches():
        pass
"""


@dataclass(frozen=True)
class Failed:
    """A job that loses the feeders of its ranks, gets new ones, and then finds a corrupt file and an invalid row."""

    log: str
    outcome: Outcome
    picture: Path


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    folder = tmp_path_factory.mktemp("failing")
    (folder / "bad.png").write_text("no picture")
    datasets = {
        "good": DatasetInput(function="user:good"),
        "train": DatasetInput(function="user:build"),
        "pictures": DatasetInput(format="images", uri=str(folder / "bad.png"), split=False),
    }
    job = make_data_job(datasets, train_loop_config={"out": str(folder)})
    with Pods(folder / "pods", job, source={"user.py": FAILING}) as pods:
        pods.start()
        pods.wait_until(lambda: {path.name for path in folder.glob("started-*")} == {"started-0", "started-1"})
        # One per dataset that is split.
        pods.wait_until(lambda: pods.count_processes("ray::SplitCoordinator") == 2)
        pods.kill_process("ray::SplitCoordinator")
        (folder / "killed").touch()
        assert pods.wait_ended() == FailureClass.APPLICATION.exit_code, pods.read_log()
        return Failed(pods.read_log(), pods.read_outcome(), folder / "bad.png")


@pytest.mark.slow  # tests/unit/driver has the errors and their classes
def test_a_crash_of_the_feeders_is_not_charged_to_train_func(failed: Failed) -> None:
    lost = r"Infrastructure: rank \d: .*SplitCoordinator.*; restarting the worker group"
    assert re.search(lost, failed.log, re.DOTALL)
    assert len(re.findall(r"\(rank \d\) has seen 20$", failed.log, re.MULTILINE)) == 2


@pytest.mark.slow
def test_an_error_in_the_data_is_an_application_failure_that_names_its_cause(failed: Failed) -> None:
    """A function that raises in a task, and, before it, a corrupt file."""
    outcome = failed.outcome
    assert (outcome.outcome, outcome.reason) == ("Application", "TrainFunctionRaised")
    assert "user.OnlyHere: row 30 is odd (user.py, line 11, in check; task " in outcome.message
    assert "site-packages" not in outcome.message and "attempts" not in outcome.message
    assert f"pictures: ValueError: PIL couldn't load image file at path '{failed.picture}'. (" in failed.log


@pytest.mark.parametrize(
    ("dataset", "texts"),
    [
        (
            DatasetInput(format="parquet", uri="/absent/data"),
            ["datasets.train.uri /absent/data: FileNotFoundError", "the head pod does not see"],
        ),
        pytest.param(
            DatasetInput(function="user:raises"),
            ["datasets.train.function user:raises: LookupError", "no such table", "line 21"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["no-file", "function-raises"],
)
def test_an_unusable_dataset_is_rejected_before_training(
    tmp_path: Path, dataset: DatasetInput, texts: list[str]
) -> None:
    """By the driver, from the head alone: no worker pod is needed."""
    with Pods(tmp_path, make_data_job({"train": dataset}), source={"user.py": FAILING}) as pods:
        pods.start_head()
        assert pods.wait_ended(timeout=180) == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert (outcome.outcome, outcome.reason) == ("Configuration", "DatasetRefused")
    for text in texts:
        assert text in outcome.message
