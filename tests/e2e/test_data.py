"""The example with datasets, as a user applies it: its accuracy, and the rows of each worker."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import pytest
import torch
import yaml

from tests.e2e.cluster import Cluster

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"


@pytest.mark.slow
def test_digits_are_learned_from_ray_data(cluster: Cluster) -> None:
    job = next(d for d in yaml.safe_load_all((EXAMPLES / "digits-data.yaml").read_text()) if d["kind"] == "TrainJob")
    job["spec"] |= {"image": cluster.image, "imagePullPolicy": "IfNotPresent"}
    cluster.provide_claim("digits-data-runs")
    cluster.apply(job)
    status = cluster.wait_end("digits-data")
    assert status["phase"] == "Succeeded", cluster.tell("digits-data")
    metrics = status["progress"]["metrics"]
    accuracy = float(metrics["accuracy"])
    assert accuracy >= 0.9
    assert metrics["rows"] == "718", "half of 1437 rows; the remaining one goes to no worker"
    log = cluster.log(status["head"]["pod"])
    for rank in (0, 1):
        assert [log.count(f"epoch {epoch} rank {rank} rows 718 ") for epoch in range(5)] == [1] * 5

    run = Path(status["checkpoint"]["uri"]).relative_to(Path(status["runURI"]).parent)
    state = torch.load(io.BytesIO(cluster.read_file("digits-data-runs", f"{run}/state.pt")), weights_only=True)
    spec = importlib.util.spec_from_file_location("digits_data", EXAMPLES / "src" / "digits_data.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = example.build_model()
    model.load_state_dict(state["model"])
    digits = example.load_digits()
    batch = {
        "pixels": torch.tensor(digits.data[::5] / 16.0, dtype=torch.float32),
        "label": torch.tensor(digits.target[::5]),
    }
    assert example.measure_accuracy(model, [batch]) == pytest.approx(accuracy, abs=1e-4)
    cluster.delete_job("digits-data")
