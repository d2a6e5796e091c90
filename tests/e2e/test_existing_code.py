"""The examples for existing Ray Train code: a function that builds the trainer, and a complete script."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import make_job
from tests.e2e.test_examples import EXAMPLES, Example, fetch_checkpoint, measure

NEEDS = ["torch", "sklearn"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "epochs"),
    [
        (Example("digits-script", NEEDS, "accuracy", ["state.pt"], at_least=0.94), 8),
        (Example("cancer-build", NEEDS, "accuracy", ["state.pt"], at_least=0.94), 20),
    ],
    ids=["script", "build"],
)
def test_existing_code_runs_unchanged_with_a_complete_status(
    cluster: Cluster, example: Example, epochs: int, tmp_path: Path
) -> None:
    documents = yaml.safe_load_all((EXAMPLES / f"{example.name}.yaml").read_text())
    [job] = [document for document in documents if document["kind"] == "TrainJob"]
    job["spec"] |= {"image": cluster.image, "imagePullPolicy": "IfNotPresent"}
    cluster.provide_claim(f"{example.name}-runs")
    cluster.apply(job)
    status = cluster.wait_end(example.name)
    assert status["phase"] == "Succeeded", cluster.tell(example.name)
    accuracy = float(status["progress"]["metrics"]["accuracy"])
    assert accuracy >= example.at_least
    assert status["progress"]["reports"] == epochs and status["checkpoint"]["index"] == epochs - 1
    assert not [c for c in status["conditions"] if c["type"] == "Resumable"], "it used the run that Railhead set up"
    log = cluster.log(status["head"]["pod"])
    seen = Counter((int(epoch), int(rank)) for epoch, rank in re.findall(example.lines, log))
    assert seen == {(epoch, rank): 1 for epoch in range(epochs) for rank in range(2)}
    fetch_checkpoint(cluster, status, example, tmp_path)
    assert measure(example, tmp_path)[-1] == pytest.approx(accuracy, abs=1e-4)
    cluster.delete_job(example.name)


ELSEWHERE = """
import os
import ray.train
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

def train_func():
    ray.train.report({"rank": ray.train.get_context().get_world_rank()})

DataParallelTrainer(
    train_func,
    scaling_config=ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.2}),
    run_config=ray.train.RunConfig(name="mine", storage_path=os.environ["RAILHEAD_STORAGE_PATH"] + "/mine"),
).fit()
"""


@pytest.mark.slow
def test_a_condition_reports_that_a_script_uses_another_storage_path(cluster: Cluster) -> None:
    entrypoint = {"entrypoint": ["python", "steps.py"]}
    cluster.apply(make_job("at-another-path", cluster.image, code=ELSEWHERE, trainer=entrypoint))
    status = cluster.wait_end("at-another-path")
    assert status["phase"] == "Succeeded", cluster.tell("at-another-path")
    [condition] = [c for c in status["conditions"] if c["type"] == "Resumable"]
    assert condition["status"] == "False" and '/mine"' in condition["message"], condition
    wait_until("the event", lambda: find_warnings(cluster, "at-another-path") == [condition["reason"]])
    cluster.delete_job("at-another-path")


def find_warnings(cluster: Cluster, job: str) -> list[str]:
    """Reasons of the warnings about the job itself."""
    selector = f"involvedObject.kind=TrainJob,involvedObject.name={job},type=Warning"
    events = json.loads(cluster("get", "events", "--field-selector", selector, "-o", "json"))["items"]
    return [str(event["reason"]) for event in events]
