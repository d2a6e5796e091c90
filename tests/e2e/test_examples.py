"""Every other example as a TrainJob: its accuracy, the work of each rank, and its resumption from a checkpoint.

`digits.yaml`, which is applied verbatim, has its own tests. Here each job is stopped by an error
halfway, so that one run covers the framework's setup twice and the resumption in between.
The checkpoint in the status is then measured by the example's own main program.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import PATIENCE, Cluster

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"

STOPS_HALF_WAY = """
import importlib
import ray.train


def train_func(config):
    example, amount = importlib.import_module(config["example"]), config["amount"]
    if ray.train.get_checkpoint() is None:
        example.train_func({**config, amount: config[amount] // 2})
        ray.train.get_all_reported_checkpoints()  # waits until the last one is committed
        raise RuntimeError("half of it is done")
    example.train_func(config)
"""


@dataclass(frozen=True)
class Example:
    """One manifest.

    Attributes:
        packages: what its image needs besides Ray.
        metric, at_least, at_most: the bar that the last report must reach.
        files: in a checkpoint.
        amount: key of trainLoopConfig for the length of the training.
        lines: printed by each rank, as a pattern of a number and the rank.
        starts: whether a line is printed once per start, with the work done so far; else once per epoch.
        extra_reports: after a resumption XGBoost's callback restarts its count and repeats the last report.
        saves_by_time: it reports the end of each start, and before that once per 30 s or more.
    """

    name: str
    packages: Sequence[str]
    metric: str
    files: Sequence[str]
    at_least: float = 0.0
    at_most: float = 1.0
    amount: str = "epochs"
    lines: str = r"epoch (\d+) rank (\d+)\b"
    starts: bool = False
    extra_reports: int = 0
    saves_by_time: bool = False

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")


ROUNDS = r"rounds from (\d+) rank (\d+)\b"
ALL = [
    Example("cancer-xgboost", ["xgboost", "sklearn"], "error", ["model.ubj"], at_most=0.06, amount="rounds",
            lines=ROUNDS, starts=True, extra_reports=1),
    Example("wine-lightgbm", ["lightgbm", "sklearn"], "error", ["model.txt"], at_most=0.06, amount="rounds",
            lines=ROUNDS, starts=True),
    Example("digits-forest", ["sklearn"], "accuracy", ["forest-0.pkl", "forest-1.pkl"], at_least=0.93,
            amount="rounds", lines=r"round (\d+) rank (\d+)\b"),
    Example("digits-jax", ["jax", "sklearn"], "accuracy", ["state.npz"], at_least=0.94),
    Example("digits-tensorflow", ["tensorflow", "keras", "sklearn"], "accuracy", ["model.weights.h5", "state.npz"],
            at_least=0.94),
    Example("digits-lightning", ["torch", "lightning", "sklearn"], "accuracy", ["checkpoint.ckpt"], at_least=0.94),
    Example("digits-transformers", ["torch", "transformers", "accelerate", "sklearn"], "eval_accuracy",
            ["checkpoint/config.json", "checkpoint/model.safetensors"], at_least=0.9),
    Example("digits-accelerate", ["torch", "accelerate", "sklearn"], "accuracy", ["model.safetensors"], at_least=0.94),
    Example("digits-fsdp", ["torch", "sklearn"], "accuracy", [".metadata", "__0_0.distcp", "__1_0.distcp"],
            at_least=0.94, saves_by_time=True),
]  # fmt: skip


@pytest.mark.slow  # `make test` has `make demo`, and each kind of trainer in tests/ray
@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_an_example_learns_resumes_from_its_checkpoint_and_predicts(
    cluster: Cluster, example: Example, tmp_path: Path
) -> None:
    missing = cluster.find_missing(example.packages)
    if missing:
        pytest.skip(f"the image {cluster.image} does not have {', '.join(missing)}")
    job = load_job(example, cluster)
    cluster.provide_claim(f"{example.name}-runs")
    cluster.apply(job)
    status = cluster.wait_end(example.name)
    assert status["phase"] == "Succeeded", cluster.tell(example.name)

    reported = float(status["progress"]["metrics"][example.metric])
    assert example.at_least <= reported <= example.at_most
    amount = job["spec"]["trainer"]["trainLoopConfig"][example.amount]
    log = cluster.log(status["head"]["pod"])
    wanted = (0, amount // 2) if example.starts else range(amount)
    seen = Counter((int(number), int(rank)) for number, rank in re.findall(example.lines, log))
    assert seen == {(number, rank): 1 for number in wanted for rank in range(2)}
    if example.saves_by_time:
        assert status["progress"]["reports"] >= 2
    else:
        assert status["progress"]["reports"] == amount + example.extra_reports

    assert float(status["checkpoint"]["metrics"][example.metric]) == reported
    fetch_checkpoint(cluster, status, example, tmp_path)
    measured = measure(example, tmp_path)
    assert measured[-1] == pytest.approx(reported, abs=1e-4)
    assert example.at_least <= measured[0] <= example.at_most
    cluster.delete_job(example.name)


def load_job(example: Example, cluster: Cluster) -> dict[str, Any]:
    """The example's TrainJob with the cluster's image, and a wrapper of its train_func that stops halfway."""
    documents = yaml.safe_load_all((EXAMPLES / f"{example.name}.yaml").read_text())
    [job] = [document for document in documents if document["kind"] == "TrainJob"]
    spec: dict[str, Any] = job["spec"]
    spec |= {"image": cluster.image, "imagePullPolicy": "IfNotPresent"}
    assert spec["trainer"]["trainFunc"] == f"{example.module}:train_func"
    spec["trainer"]["trainFunc"] = "half_way:train_func"
    spec["trainer"]["trainLoopConfig"] |= {"example": example.module, "amount": example.amount}
    spec["source"]["inline"]["half_way.py"] = STOPS_HALF_WAY
    spec["run"]["failure"] = {"maxFailures": 1}
    return dict(job)


def fetch_checkpoint(cluster: Cluster, status: dict[str, Any], example: Example, folder: Path) -> None:
    checkpoint = Path(status["checkpoint"]["uri"]).relative_to(Path(status["runURI"]).parent)
    for file in example.files:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(cluster.read_file(f"{example.name}-runs", f"{checkpoint}/{file}"))


def measure(example: Example, folder: Path) -> list[float]:
    """The output of `python EXAMPLE.py FOLDER`, in its own process because two frameworks in one may clash."""
    command = [sys.executable, str(EXAMPLES / "src" / f"{example.module}.py"), str(folder)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return [float(number) for number in done.stdout.splitlines()[-1].split()]


def test_every_example_has_a_test() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.yaml")}
    elsewhere = {
        "digits",
        "digits-data",
        "digits-script",
        "cancer-build",
        "digits-preemption",
        "digits-s3",
        "digits-public-image",
    }
    assert names == {example.name for example in ALL} | elsewhere
