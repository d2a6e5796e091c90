"""The examples for GPUs on a real GPU, with one rank: a few steps, whose end is in the status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.test_gpu import UNIFORM, read, train
from tests.gpu.devices import GPUS, needs_gpus


@needs_gpus(1)
@pytest.mark.parametrize(
    ("name", "metric", "config"),
    [
        ("text-fsdp", "held_out_loss", {"steps": 20, "every": "continuous"}),
        ("text-lora", "eval_loss", {"steps": 20, "save_every": 10, "rank": 4}),
        ("text-lightning", "held_out_loss", {"epochs": 2, "steps": 10}),
    ],
)
def test_an_example_learns_on_a_gpu(tmp_path: Path, name: str, metric: str, config: dict[str, float | str]) -> None:
    outcome, log = train(name, tmp_path, config, workers=1, gpus=GPUS[:1])
    assert "on cuda:0" in log
    assert outcome.reports >= 2 and outcome.checkpoint is not None
    assert read(outcome, metric) < UNIFORM
