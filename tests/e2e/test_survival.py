"""A job survives its own error, a hang, and an operator killed in each phase; test_saves.py has a lost worker pod."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import COUNTING, NO_RESTARTS, make_job, read_starts, with_config


@pytest.mark.slow
def test_an_application_error_restarts_the_workers_in_their_pods_from_the_last_checkpoint(
    cluster: Cluster,
) -> None:
    cluster.apply(with_config(make_job("retried", cluster.image), epochs=5, seconds=0.2, raise_at=3))
    status = cluster.wait_end("retried")
    assert status["phase"] == "Succeeded", cluster.tell("retried")
    assert status["attempt"] == 1 and "failure" not in status
    assert status["restarts"] == {**NO_RESTARTS, "application": 1}
    assert "the lorry is empty" in status["progress"]["restart"]["message"]
    assert read_starts(cluster, "retried") == [0, 3]
    assert status["checkpoint"]["index"] == 4
    cluster.delete_job("retried")


# The first start of rank 1 hangs after three epochs, with the others in its collective.
HANGS = "import threading\n" + COUNTING.replace(
    "        with tempfile",
    "        if epoch == 3 and not first and rank == 1:\n            threading.Event().wait()\n        with tempfile",
)


@pytest.mark.slow
def test_hanging_training_is_explained_and_restarts_in_its_pods_from_the_last_checkpoint(cluster: Cluster) -> None:
    job = make_job("hangs", cluster.image, code=HANGS, progressDeadlineSeconds=15)
    cluster.apply(with_config(job, epochs=5, seconds=0.2))
    status = cluster.wait_end("hangs")
    assert status["phase"] == "Succeeded", cluster.tell("hangs")
    assert status["attempt"] == 1
    restart = status["progress"]["restart"]
    assert (restart["class"], restart["reason"], restart["charged"]) == ("Hang", "ProgressDeadlineExceeded", 0)
    assert "steps.py" in restart["message"] and "in train_func" in restart["message"]
    assert not any((status.get("restarts") or {}).values()) and status["countedRestarts"]["number"] == 1
    assert read_starts(cluster, "hangs") == [0, 3]
    assert status["checkpoint"]["index"] == 4
    cluster.delete_job("hangs")


@pytest.mark.slow
def test_an_operator_killed_in_each_phase_changes_nothing(cluster: Cluster) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "orphan-runs"}}
    run = {"storagePath": "/runs", "storageVolume": claim, "failure": {"maxFailures": 0}}
    job = make_job("orphan", cluster.image, run=run)
    cluster.apply(with_config(job, epochs=24, seconds=0.5, raise_at=20))
    cluster.wait_phase("orphan", "Pending")  # until the claim exists
    wait_until("all pods", lambda: len(cluster.pods("orphan")) == 3)
    uids = {p["metadata"]["uid"] for p in cluster.pods("orphan")}
    cluster.kill_operator()
    cluster.provide_claim("orphan-runs")
    cluster.wait_phase("orphan", "Starting")
    cluster.kill_operator()
    cluster.wait_phase("orphan", "Running")
    cluster.kill_operator()
    assert {p["metadata"]["uid"] for p in cluster.pods("orphan")} == uids
    cluster.wait_phase("orphan", "Restarting")
    cluster.kill_operator()
    cluster.wait_phase("orphan", "Running")
    status = cluster.wait_end("orphan")
    assert status["phase"] == "Succeeded", cluster.tell("orphan")
    assert status["attempt"] == 2 and status["round"] == 0
    assert status["restarts"] == {**NO_RESTARTS, "application": 1}
    assert read_starts(cluster, "orphan", claim="orphan-runs") == [0, 20]
    cluster.kill_operator()
    assert cluster.status("orphan")["phase"] == "Succeeded"
    cluster.delete_job("orphan")
