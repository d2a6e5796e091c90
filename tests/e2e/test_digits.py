"""The example as a user applies it: its accuracy, its status and logs, and what it leaves behind."""

from __future__ import annotations

import importlib.util
import io
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import EXAMPLES, load_digits

# In local mode `make demo`, which tests/local runs, covers most of it.
pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.fixture(scope="module")
def digits(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The job after it has succeeded, and the workers' logs."""
    cluster.provide_claim("digits-runs")
    cluster.apply(*load_digits(cluster))
    wait_until("worker pods", lambda: len(cluster.pods("digits")) == 3)
    cluster.wait_phase("digits", "Running", "Succeeded")
    workers = [n for n in cluster.pod_names("digits") if "-w" in n]
    with ThreadPoolExecutor() as pool:
        # Followed until the containers end: worker pods are deleted as soon as the job has succeeded.
        logs = list(pool.map(lambda name: cluster("logs", "-f", name), workers))
    worker_logs = dict(zip(workers, logs, strict=True))
    status = cluster.wait_end("digits")
    assert status["phase"] == "Succeeded", cluster.tell("digits")
    yield {"job": cluster.job("digits"), "status": status, "worker_logs": worker_logs}
    cluster.delete_job("digits")


def test_the_checkpoint_has_the_reported_accuracy(cluster: Cluster, digits: dict[str, Any]) -> None:
    status = digits["status"]
    accuracy = float(status["progress"]["metrics"]["accuracy"])
    assert accuracy >= 0.95
    assert status["progress"]["reports"] == 10
    assert status["checkpoint"]["index"] == 9
    run = Path(status["checkpoint"]["uri"]).relative_to(Path(status["runURI"]).parent)
    state = io.BytesIO(cluster.read_file("digits-runs", f"{run}/state.pt"))
    spec = importlib.util.spec_from_file_location("digits", EXAMPLES / "src" / "digits.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = example.build_model()
    model.load_state_dict(torch.load(state, weights_only=True)["model"])
    assert example.measure_accuracy(model, example.split_digits()[1]) == pytest.approx(accuracy, abs=1e-4)


def test_the_head_log_has_every_line_of_all_ranks(cluster: Cluster, digits: dict[str, Any]) -> None:
    log = cluster.log(digits["status"]["head"]["pod"])
    wanted = {f"epoch {epoch} rank {rank} " for epoch in range(10) for rank in range(2)}
    seen = Counter(part for line in log.splitlines() for part in wanted if part in line)
    assert set(seen) == wanted


def test_a_workers_log_has_its_own_rank(digits: dict[str, Any]) -> None:
    ranks: list[int] = []
    for log in digits["worker_logs"].values():
        mine = {rank for rank in (0, 1) if f"rank {rank} loss" in log}
        assert len(mine) == 1, "a worker's log has only its own rank"
        ranks += mine
    assert sorted(ranks) == [0, 1]


def test_the_status_is_complete(digits: dict[str, Any]) -> None:
    status = digits["status"]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions == {"Running": "False", "Suspended": "False", "Complete": "True", "Failed": "False"}
    assert status["observedGeneration"] == digits["job"]["metadata"]["generation"]
    assert status["attempt"] == 1 and status["round"] == 0
    assert "failure" not in status
    assert status["completionTime"] >= status["startTime"]


def test_the_workers_are_deleted_and_the_head_stays_for_its_log(cluster: Cluster, digits: dict[str, Any]) -> None:
    wait_until("the workers gone", lambda: cluster.pod_names("digits") == [digits["status"]["head"]["pod"]])


def test_each_event_is_recorded_once(cluster: Cluster, digits: dict[str, Any]) -> None:
    def read() -> list[str]:
        about = f"involvedObject.uid={digits['job']['metadata']['uid']}"  # test_ten_tasks.py has one of this name
        path = "jsonpath={range .items[*]}{.reason} {end}"
        return cluster("get", "events", "--field-selector", about, "-o", path).split()

    wait_until("the last event", lambda: "Succeeded" in read())
    assert Counter(read()) == {"Started": 1, "CheckpointCommitted": 1, "Succeeded": 1}


def test_training_pods_have_no_access_to_the_cluster(cluster: Cluster, digits: dict[str, Any]) -> None:
    head = cluster.get("pods", digits["status"]["head"]["pod"])
    assert head["spec"]["automountServiceAccountToken"] is False
    sources = [s for v in head["spec"]["volumes"] if "projected" in v for s in v["projected"]["sources"]]
    assert [s["serviceAccountToken"]["audience"] for s in sources] == ["railhead.dev/report"]
