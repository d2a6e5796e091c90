"""Saves in the background copy the state to the same memory, unless it does not fit any more."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor

from railhead.training._state_copy import StateCopy
from tests.unit.training.ranks import run_ranks


def make_state(value: float = 1.0) -> dict[str, Any]:
    return {"model": {"weight": torch.full((3, 2), value)}, "moments": [torch.full((2,), value)], "step": int(value)}


def find_memory(state: dict[str, Any]) -> list[int]:
    return [state["model"]["weight"].data_ptr(), state["moments"][0].data_ptr()]


def test_the_second_copy_is_made_in_the_memory_of_the_first() -> None:
    kept = StateCopy()
    first = kept.take(make_state(1.0))
    memory = find_memory(first)
    state = make_state(2.0)
    second = kept.take(state)
    assert find_memory(second) == memory
    state["model"]["weight"].fill_(3.0)
    assert second["model"]["weight"].tolist() == [[2.0, 2.0]] * 3 and second["step"] == 2, "training goes on"


def replace_weight(state: dict[str, Any]) -> None:
    state["model"]["weight"] = torch.full((1, 2), 5.0)


def change_type(state: dict[str, Any]) -> None:
    state["model"]["weight"] = state["model"]["weight"].to(torch.float64)


def add_moment(state: dict[str, Any]) -> None:
    state["moments"].append(torch.full((4,), 7.0))


def rename(state: dict[str, Any]) -> None:
    state["model"]["other"] = state["model"].pop("weight")


@pytest.mark.parametrize("change", [replace_weight, change_type, add_moment, rename])
def test_a_state_with_other_tensors_is_copied_as_it_is(change: Callable[[dict[str, Any]], None]) -> None:
    kept = StateCopy()
    kept.take(make_state(1.0))
    state = make_state(2.0)
    change(state)
    expected = copy.deepcopy(state)
    torch.testing.assert_close(kept.take(state), expected, rtol=0, atol=0)


def copy_a_scale(rank: int) -> tuple[float, float]:
    """What a copy has of a DTensor without dimensions, before and after training continues."""
    scale = distribute_tensor(torch.tensor(1.0), init_device_mesh("cpu", (1,)), [Replicate()])
    kept = StateCopy()
    kept.take({"scale": scale})
    scale.fill_(2.0)
    copied = kept.take({"scale": scale})
    before = copied["scale"].to_local().item()
    scale.fill_(3.0)
    return before, copied["scale"].to_local().item()


def test_a_copy_has_its_own_dtensors_without_dimensions(tmp_path: Path) -> None:
    assert run_ranks(1, copy_a_scale, tmp_path) == [(2.0, 2.0)]
