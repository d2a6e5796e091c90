"""`railhead.training.dcp` in code that runs by plain Ray Train, without Railhead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.training.test_torchrun import run_python

# Each value of `every` in turn, until two saves have begun: the next value commits what is being written.
TRAINING = """
import sys, time
import ray, torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def train_func(config):
    from railhead import training
    from railhead.training import _checkpoints, _save_pace, dcp

    # "auto" would begin its first save after 30 s, the ranks would look at each other every two seconds.
    _checkpoints.LOOK_SECONDS = 0.0
    _save_pace.LEAST_SECONDS = 0.1
    _save_pace.STALL_SHARE = 0.5
    _save_pace.LossHistory.expect_seconds = lambda *_: 0.01
    state = {"weight": torch.zeros(10), "step": 0}
    dcp.load(state)
    first = state["step"]
    assert state["weight"].tolist() == [float(first)] * 10, state
    for every in ("auto", "continuous", 0.1):
        begun = 0
        while begun < 2:
            time.sleep(0.01)
            state["step"] += 1
            state["weight"].fill_(float(state["step"]))
            training.progress(state["step"])
            metrics = {"step": state["step"], "first": first, "every": str(every)}
            begun += dcp.save(state, metrics=metrics, every=every)
    dcp.save(state, metrics={"step": state["step"], "first": first, "every": "the end"})


ray.init(num_cpus=2, include_dashboard=False)
last = 0
for turn in range(2):
    trainer = TorchTrainer(
        train_func,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=sys.argv[1]),
    )
    found = [metrics for _, metrics in trainer.fit().best_checkpoints if metrics["first"] == last]
    print("saved by", [each["every"] for each in found], "from step", last, flush=True)
    last = found[-1]["step"]
"""
SAVED = ["auto", "auto", "continuous", "continuous", "0.1", "0.1", "the end"]


@pytest.mark.slow  # tests/unit/training has each value with ranks of its own; this is 40 s of Ray
def test_each_value_of_every_saves_and_the_next_run_continues_from_the_last_save(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    printed = run_python("train.py", str(tmp_path / "runs"), folder=tmp_path)
    saved = [line for line in printed.splitlines() if line.startswith("saved by")]
    assert [line.partition(" from step ")[0] for line in saved] == [f"saved by {SAVED}"] * 2, printed
    assert saved[0].endswith("from step 0") and not saved[1].endswith("from step 0"), printed
