"""`railhead.training` in code that runs without Railhead and without Ray Train, by plain torchrun."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import railhead
from tests.unit.training.ranks import run_ranks

SECONDS = 300


def save_with_each_interval(rank: int) -> str:
    """Nothing takes a report here, so nothing is saved. Its source is also the program that torchrun runs."""
    import torch
    import torch.distributed as dist

    from railhead import training
    from railhead.training import dcp
    from railhead.training._checkpoints import Agreement
    from railhead.training._save_pace import Every

    state = {"weight": torch.ones(10)}
    assert dcp.load(state) is False
    of_calls: tuple[Every | None, ...] = (None, "auto", "continuous", 0.001)
    for every in of_calls:
        for step in range(3):
            training.progress(step)
            assert dcp.save(state, metrics={"step": step}, every=every) is False
    of_callbacks: tuple[Every | None, ...] = (None, "auto", 0.001)
    for every in of_callbacks:
        of_a_callback = Agreement(every)
        assert not any(of_a_callback.is_time_to_save() for _ in range(3))
    dist.barrier()
    return f"rank {rank} is done"


BY_TORCHRUN = f"""
import torch.distributed as dist

{inspect.getsource(save_with_each_interval)}

dist.init_process_group("gloo")
print(save_with_each_interval(dist.get_rank()), flush=True)
dist.destroy_process_group()
"""


def run_python(*arguments: str, folder: Path) -> str:
    """Returns what a program prints that has Railhead's package and none of its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAILHEAD_")}
    environment["PYTHONPATH"] = str(Path(railhead.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_railhead_no_value_of_every_saves_or_fails(tmp_path: Path) -> None:
    assert run_ranks(2, save_with_each_interval, tmp_path) == ["rank 0 is done", "rank 1 is done"]


@pytest.mark.slow  # the same with torchrun's own processes, each of which imports torch
def test_by_plain_torchrun_no_value_of_every_saves_or_fails(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BY_TORCHRUN)
    printed = run_python(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", folder=tmp_path
    )
    assert sorted(printed.split("\n")) == ["", "rank 0 is done", "rank 1 is done"]
    assert [each.name for each in tmp_path.iterdir() if each.name != "__pycache__"] == ["train.py"]
