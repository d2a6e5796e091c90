"""Sharded checkpoints: what each rank writes is one checkpoint for any number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from railhead.training import dcp
from tests.unit.training.ranks import Rank, run_ranks

VALUES = list(range(12))  # 12 rows: also for 3 ranks


class Counter:
    """As a data loader or a scheduler has it."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


def make_state(*, weight: float, step: int) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = weight * torch.tensor(VALUES, dtype=torch.float32).reshape(12, 1)
    return {
        "model": {"weight": distribute_tensor(whole, mesh, [Shard(0)]), "bias": torch.full((2,), weight)},
        "counter": Counter(step),
        "step": step,
    }


def read_state(state: dict[str, Any]) -> tuple[list[float], list[float], int, int]:
    weight: DTensor = state["model"]["weight"]
    return (
        weight.full_tensor().flatten().tolist(),
        state["model"]["bias"].tolist(),
        state["counter"].value,
        state["step"],
    )


def save_twice(rank: int, folder: str) -> list[tuple[dict[str, Any], str]]:
    me = Rank(folder)
    state = make_state(weight=1.0, step=1)
    dcp.save(state, metrics={"step": 1})
    state["model"]["weight"].mul_(2)
    state["model"]["bias"].mul_(2)
    state["counter"].value = 2
    state["step"] = 2
    dcp.save(lambda: state, metrics=lambda: {"step": 2})
    return me.finish_uploads()


def load_one(rank: int, folder: str, checkpoint: str) -> Any:
    Rank(folder, checkpoint=checkpoint)
    state = make_state(weight=-1.0, step=-1)
    return dcp.load(state), read_state(state)


def load_another(rank: int, folder: str, checkpoint: str) -> str:
    Rank(folder, checkpoint=checkpoint)
    return read_error(lambda: dcp.load({"step": 1}))


def save_to_a_full_disk(rank: int, folder: str) -> str:
    me = Rank(folder)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    if rank == 1:
        setattr(FileSystemWriter, "write_data", fail)  # noqa: B010
    try:
        dcp.save(make_state(weight=1.0, step=1))
    except BaseException as error:  # torch's is not an Exception
        assert me.reports.empty()
        return str(error)
    return ""


def read_error(attempt: Callable[[], Any]) -> str:
    try:
        return f"no error, {attempt()}"
    except Exception as error:
        return str(error)


def test_a_state_of_two_ranks_is_one_checkpoint_for_one_and_for_three(tmp_path: Path) -> None:
    zero, one = run_ranks(2, save_twice, tmp_path, str(tmp_path))
    assert zero == one, "the same folders in the same order"
    assert [metrics for metrics, _ in zero] == [{"step": 1}, {"step": 2}]
    for _, folder in zero:
        assert {".metadata", "__0_0.distcp", "__1_0.distcp"} <= {path.name for path in Path(folder).iterdir()}
    _, folder = zero[-1]
    wanted = (True, ([2.0 * value for value in VALUES], [2.0, 2.0], 2, 2))
    for world in (1, 3):
        assert run_ranks(world, load_one, tmp_path, str(tmp_path), folder) == [wanted] * world


def test_an_error_of_one_rank_ends_the_run_on_all_and_nothing_is_reported(tmp_path: Path) -> None:
    for error in run_ranks(2, save_to_a_full_disk, tmp_path, str(tmp_path)):
        assert "No space left on device" in error


def test_a_run_that_begins_loads_nothing(tmp_path: Path) -> None:
    assert run_ranks(1, load_one, tmp_path, str(tmp_path), "") == [
        (False, ([-1.0 * v for v in VALUES], [-1.0, -1.0], -1, -1))
    ]


def test_a_checkpoint_of_another_kind_has_a_clear_message(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    [message] = run_ranks(1, load_another, tmp_path, str(tmp_path), str(folder))
    assert message == f"{folder} was not saved by torch.distributed.checkpoint: it has no .metadata"


def test_outside_of_ray_train_nothing_is_saved_or_loaded() -> None:
    state = {"step": 1}
    dcp.save(state)
    assert not dcp.load(state) and state == {"step": 1}
