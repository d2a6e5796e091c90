"""The digits example on pods with real Ray: the minimum for each Ray of the matrix."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.job_input import CheckpointInput
from tests.ray.pods import Pods, make_job

EXAMPLE = Path(__file__).resolve().parents[2] / "manifests" / "examples" / "src" / "digits.py"
EPOCHS = 10


@pytest.mark.slow
def test_digits_is_learned_by_two_workers(tmp_path: Path) -> None:
    """Each rank trains once, each epoch is committed, and the checkpoint has the reported accuracy."""
    job = make_job(
        train_func="digits:train_func",
        train_loop_config={"epochs": EPOCHS},
        checkpoint=CheckpointInput(num_to_keep=2, score_attribute="accuracy", score_order="max"),
    )
    with Pods(tmp_path, job, source={"digits.py": EXAMPLE.read_text()}) as pods:
        # As an image may set it: with its token no worker would join, and with its Redis the head would not start.
        of_image = {"RAY_AUTH_TOKEN": "of-the-image", "RAY_REDIS_ADDRESS": "127.0.0.1:9"}
        pods.start(env=of_image, worker_env={"RAY_AUTH_TOKEN": "of-another-image"})
        assert pods.wait_ended(timeout=240) == SUCCEEDED_CODE, pods.read_log()
        outcome = pods.read_outcome()
        log = pods.read_log()
        assert "ignoring RAY_AUTH_TOKEN, RAY_REDIS_ADDRESS of spec.image, spec.env or spec.envFrom" in log
        assert pods.reports[-1]["state"] == "FINISHED"
        assert pods.reports[-1]["joined"] == 2
    assert outcome.checkpoint is not None and outcome.best_checkpoint is not None
    assert (outcome.reports, outcome.checkpoint.index) == (EPOCHS, EPOCHS - 1)
    for rank in range(2):
        seen = {epoch for epoch in range(EPOCHS) if f"(rank {rank}) epoch {epoch} rank {rank} loss" in log}
        assert seen == set(range(EPOCHS))
    accuracy = float((outcome.metrics or {})["accuracy"])
    assert accuracy >= 0.95
    best = outcome.best_checkpoint
    assert float(best.metrics["accuracy"]) >= accuracy and Path(best.uri, "state.pt").is_file()
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = example.build_model()
    state = torch.load(Path(outcome.checkpoint.uri, "state.pt"), weights_only=True)
    model.load_state_dict(state["model"])
    assert example.measure_accuracy(model, example.split_digits()[1]) == pytest.approx(accuracy, abs=1e-4)
