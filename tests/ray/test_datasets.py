"""spec.datasets with a real Ray: every row once, all formats, and what is said when something is wrong."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from railhead.contract import environment as e
from railhead.contract import exit_codes
from railhead.contract.job_input import JobInput
from tests.ray.pods import Pods, make_job
from tests.s3 import BUCKET, start_s3

ROWS = 101
SLOT = {"railhead_worker": 1.0}


def make_data_job(datasets: dict[str, Any], *, free_cpus: int = 1, **changes: Any) -> JobInput:
    """Two pods with one worker each, as with spec.datasets: a CPU of each pod is Ray Data's."""
    job = make_job(framework="Python", backend={}, datasets=datasets, **changes)
    job.scaling["resourcesPerWorker"].update(SLOT)
    job.ray_node["worker"].update(cpus=1 + free_cpus, resources=SLOT)
    return job


# Notes what each rank has seen; `queue.py` of the source must not take the standard library's place.
SEEING = """
import json, os, ray, ray.train

def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    seen = {"node": ray.get_runtime_context().get_node_id()}
    for name, column in config["columns"].items():
        for epoch in range(2 if name in ("rows", "everywhere") else 1):
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


# Each rank's first try waits with its shard until the test has killed what feeds it.
FED = """
import os, time, ray.data, ray.train

def rows(config):
    return ray.data.range(40, override_num_blocks=4)

def train_func(config):
    shard = ray.train.get_dataset_shard("train")
    started = os.path.join(config["out"], f"started-{ray.train.get_context().get_world_rank()}")
    if not os.path.exists(started):
        open(started, "w").close()
        while not os.path.exists(os.path.join(config["out"], "killed")):
            time.sleep(0.05)
    print("has seen", sum(len(batch["id"]) for batch in shard.iter_batches(batch_size=4)), flush=True)
"""


def write_files(folder: Path) -> dict[str, str]:
    """ROWS rows, or 4 images, in each format; path by name of the dataset."""
    for name in ("rows", "json", "images", "binary"):
        (folder / name).mkdir(parents=True)
    for part in range(3):
        with open(folder / "rows" / f"{part}.csv", "w", newline="") as file:
            csv.writer(file, delimiter=";").writerows([["id"], *([n] for n in range(part, ROWS, 3))])
        lines = [json.dumps({"id": n}) for n in range(part, ROWS, 3)]
        (folder / "json" / f"{part}.json").write_text("\n".join(lines))
    pq.write_table(pa.table({"id": list(range(ROWS))}), folder / "rows.parquet", row_group_size=20)
    (folder / "rows.txt").write_text("\n".join(str(n) for n in range(ROWS)))
    for n in range(4):
        Image.fromarray(np.full((8, 6, 3), n, dtype=np.uint8)).save(folder / "images" / f"{n}.png")
        (folder / "binary" / f"{n}.bin").write_bytes(f"file {n}".encode())
    paths = {"rows": "rows", "everywhere": "rows", "parquet": "rows.parquet", "text": "rows.txt"}
    return {name: str(folder / paths.get(name, name)) for name in (*paths, "json", "images", "binary")}


DATASETS: dict[str, dict[str, Any]] = {
    "rows": {"format": "csv", "options": {"parse_options": {"delimiter": ";"}}},
    "everywhere": {"format": "csv", "split": False},
    "parquet": {"format": "parquet", "options": {"override_num_blocks": 5}},
    "json": {"format": "json", "options": {"lines": True}, "split": False},
    "text": {"format": "text", "split": False},
    "images": {"format": "images", "options": {"size": [4, 3], "mode": "L"}, "split": False},
    "binary": {"format": "binary", "split": False},
    "made": {"function": "data:build"},
}
COLUMNS = {"rows": "id", "everywhere": "id", "parquet": "id", "json": "id", "text": "text", "images": "image"}


def test_every_row_is_seen_once_per_epoch_in_every_format(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "data")
    columns = {**COLUMNS, "binary": "bytes", "made": "text"}
    config = {"columns": columns, "out": str(tmp_path), "rows": 60}
    source = {"user.py": SEEING, "data.py": MADE, "steps.py": STEPS, "queue.py": "raise RuntimeError('mine')"}
    with Pods(tmp_path / "pods", make_data_job(DATASETS, train_loop_config=config), source=source) as pods:
        pods.start(env={e.DATASETS: json.dumps(paths)})
        assert pods.wait_ended(timeout=240) == exit_codes.SUCCEEDED, pods.read_log()
        log = pods.read_log()
    seen = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]

    for epoch in (0, 1):
        mine, others = (set(rank["rows"][epoch]) for rank in seen)
        assert (len(mine), len(others)) == (50, 50), "equal parts: what is left over belongs to nobody"
        assert len(mine | others) == 100 and mine | others <= set(range(ROWS))
        for rank in seen:
            assert len(rank["rows"][epoch]) == 50
            assert sorted(rank["everywhere"][epoch]) == list(range(ROWS))
    rows = seen[0]["parquet"][0] + seen[1]["parquet"][0]
    assert len(rows) == len(set(rows)) == 100 and set(rows) <= set(range(ROWS))
    for rank in seen:
        assert sorted(rank["json"][0]) == list(range(ROWS))
        assert sorted(rank["text"][0]) == sorted(str(n) for n in range(ROWS))
        assert sorted(rank["images"][0]) == [[[4, 3], n] for n in range(4)]
        assert sorted(rank["binary"][0]) == [f"file {n}" for n in range(4)]

    made = [line.split() for rank in seen for line in rank["made"][0]]
    assert sorted(int(number) for number, _ in made) == list(range(60))
    # The functions of the user's modules have run in tasks, on the worker pods and never on the head.
    assert {node for _, node in made} <= {rank["node"] for rank in seen}
    assert "\x1b[A" not in log, "no progress bars"


def test_a_bucket_is_read_with_what_the_secret_puts_into_the_environment(tmp_path: Path) -> None:
    with start_s3(tmp_path) as s3:
        for part in range(2):
            pq.write_table(pa.table({"id": list(range(part, 40, 2))}), tmp_path / "part")
            s3.put(f"rows/{part}.parquet", (tmp_path / "part").read_bytes())
        dataset = {"format": "parquet", "uri": f"s3://{BUCKET}/rows"}
        config = {"columns": {"train": "id"}, "out": str(tmp_path)}
        job = make_data_job({"train": dataset}, train_loop_config=config)
        with Pods(tmp_path / "pods", job, source={"user.py": SEEING}) as pods:
            pods.start(env={**s3.environment, "AWS_ENDPOINT_URL": s3.endpoint})
            assert pods.wait_ended(timeout=240) == exit_codes.SUCCEEDED, pods.read_log()
            told = pods.read_log() + str(pods.reports) + pods.read_outcome().to_json()
    mine, others = (json.loads((tmp_path / f"{rank}.json").read_text())["train"][0] for rank in (0, 1))
    assert len(mine) == len(others) == 20 and sorted(mine + others) == list(range(40))
    assert s3.secret not in told and s3.key not in told


FAILING = """
import ray, ray.data, ray.train

class OnlyHere(Exception):
    def __init__(self, row, why):
        super().__init__(f"row {row} is {why}")

def check(row):
    if row["id"] == 30:
        raise OnlyHere(30, "odd")
    return row

def build():
    return ray.data.range(50).map(check)

def raises():
    raise LookupError("no such table")

def returns():
    return [1, 2, 3]

def train_func():
    from railhead.driver.describe import describe_exception

    try:
        read("pictures")
    except ValueError as error:
        print("pictures:", describe_exception(error), flush=True)
    read("train")

def read(name):
    for batch in ray.train.get_dataset_shard(name).iter_batches():
        pass
"""


def test_a_crash_of_what_feeds_the_ranks_is_not_charged_to_train_func(tmp_path: Path) -> None:
    job = make_data_job({"train": {"function": "user:rows"}}, train_loop_config={"out": str(tmp_path)})
    with Pods(tmp_path / "pods", job, source={"user.py": FED}) as pods:
        pods.start(workers=2)
        pods.wait_until(lambda: {path.name for path in tmp_path.glob("started-*")} == {"started-0", "started-1"})
        pods.wait_until(lambda: pods.has_process("ray::SplitCoordinator"))
        pods.kill_process("ray::SplitCoordinator")
        (tmp_path / "killed").touch()
        assert pods.wait_ended() == exit_codes.SUCCEEDED, pods.read_log()
        log = pods.read_log()
    assert re.search(r"Infrastructure: rank \d: .*SplitCoordinator.*; the worker group is formed anew", log, re.DOTALL)
    assert len(re.findall(r"\(rank \d\) has seen 20$", log, re.MULTILINE)) == 2


def test_an_error_in_the_data_is_the_applications_and_names_its_cause(tmp_path: Path) -> None:
    """A function that raises in a task, and, before it, a corrupt file."""
    (tmp_path / "bad.png").write_text("no picture")
    datasets = {"pictures": {"format": "images", "split": False}, "train": {"function": "user:build"}}
    with Pods(tmp_path / "pods", make_data_job(datasets), source={"user.py": FAILING}) as pods:
        pods.start(env={e.DATASETS: json.dumps({"pictures": str(tmp_path / "bad.png")})})
        assert pods.wait_ended(timeout=180) == exit_codes.APPLICATION, pods.read_log()
        outcome = pods.read_outcome()
        log = pods.read_log()
    assert (outcome.outcome, outcome.reason) == ("Application", "TrainFunctionRaised")
    assert "user.OnlyHere: row 30 is odd (user.py, line 10, in check; task " in outcome.message
    assert "site-packages" not in outcome.message and "attempts" not in outcome.message
    assert f"pictures: ValueError: PIL couldn't load image file at path '{tmp_path}/bad.png'. (" in log


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ({"format": "parquet"}, ["datasets.train.uri /absent/data: FileNotFoundError", "the head pod sees no such"]),
        ({"function": "user:raises"}, ["datasets.train.function user:raises: LookupError", "no such table", "line 17"]),
    ],
    ids=["no-file", "function-raises"],
)
def test_a_dataset_that_cannot_be_used_is_refused_before_training(
    tmp_path: Path, dataset: dict[str, Any], words: list[str]
) -> None:
    """By the driver, from the head alone: no worker pod has to come."""
    with Pods(tmp_path, make_data_job({"train": dataset}), source={"user.py": FAILING}) as pods:
        pods.start_head(RAILHEAD_DATASETS=json.dumps({"train": "/absent/data"}))
        assert pods.wait_ended(timeout=90) == exit_codes.CONFIGURATION, pods.read_log()
        outcome = pods.read_outcome()
    assert (outcome.outcome, outcome.reason) == ("Configuration", "DatasetRefused")
    for word in words:
        assert word in outcome.message
