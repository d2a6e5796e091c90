"""Sharded checkpoints on an object store: written there by each rank, and read there by each rank in part."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from railhead.training import _checkpoints, _slices, dcp
from tests.s3 import S3, start_s3
from tests.unit.training.ranks import Rank, run_ranks
from tests.unit.training.test_paced_saves import agree

ROWS, COLUMNS = 12, 50_000
BYTES = 4 * ROWS * COLUMNS


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with start_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


def make_state(value: float) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {"weight": distribute_tensor(torch.full((ROWS, COLUMNS), value), mesh, [Shard(0)])}


def save(rank: int, folder: str, uri: str, environment: dict[str, str]) -> list[str]:
    os.environ.update(environment)
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    me = Rank(folder, storage=uri)
    while not agree(me.reports.qsize() >= 1):
        dcp.save(lambda: make_state(1.0), every=0.001)
        time.sleep(0.05)
    dcp.save(make_state(1000.0))
    return [path for _, path in me.finish_uploads()]


def load(rank: int, folder: str, uri: str, path: str, environment: dict[str, str]) -> tuple[float, float, list[int]]:
    """The least and the largest number that this rank has, and the bytes of each read of the files with its parts."""
    os.environ.update(environment)
    from ray.train import Checkpoint
    from ray.train.v2._internal.execution.context import get_train_context

    Rank(folder, storage=uri)
    storage = get_train_context().get_storage()
    get_train_context().checkpoint = Checkpoint(path, filesystem=storage.storage_filesystem)
    read = list[int]()
    original = _slices.SliceReader._request

    def request(reader: Any, whole: Any, begin: int, data: memoryview) -> None:
        read.append(len(data))
        original(reader, whole, begin, data)

    setattr(_slices.SliceReader, "_request", request)  # noqa: B010
    state = make_state(-1.0)
    assert dcp.load(state)
    mine = state["weight"].to_local()
    return float(mine.min()), float(mine.max()), read


def test_each_rank_writes_its_part_to_the_store_and_reads_what_it_needs(s3: S3, tmp_path: Path) -> None:
    uri = s3.build_uri("runs")
    paths, others = run_ranks(2, save, tmp_path, str(tmp_path), uri, s3.environment)
    assert paths == others and len(paths) >= 2
    for path in paths:
        assert s3.list(path.removeprefix("experiments/")) == {".metadata", "__0_0.distcp", "__1_0.distcp"}
    for least, most, read in run_ranks(2, load, tmp_path, str(tmp_path), uri, paths[-1], s3.environment):
        assert (least, most) == (1000.0, 1000.0)
        assert BYTES / 2 <= sum(read) < 0.6 * BYTES and len(read) == 1, "one request for all that this rank needs"
    for least, most, read in run_ranks(3, load, tmp_path, str(tmp_path), uri, paths[0], s3.environment):
        assert least == most == 1.0, "a part of an earlier rank is read as a whole"
        assert BYTES / 3 <= sum(read) < 1.1 * BYTES and len(read) <= 2
