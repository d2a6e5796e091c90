"""Jobs that a backup tool makes again, on a real API server: exported, deleted and created with another uid."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.contract.job_input import FILE, JobInput
from tests.operator.cluster import Cluster, Object
from tests.waiting import wait_until

VELERO = {"velero.io/restore-name": "nightly"}
STRICT: dict[str, Any] = {"disruptionLimit": 0, "backoffLimit": 0, "noProgressLimit": 0}


def train_and_export(cluster: Cluster, name: str) -> Object:
    """Returns the job as a backup has it; then it and its pods are gone."""
    cluster.apply(name, **STRICT)
    for pod in cluster.wait_pods(name, 3).values():
        cluster.run_pod(pod)
    cluster.wait_phase(name, "Starting")
    run = cluster.status(name)["run"]["name"]
    checkpoint = {"uri": f"/runs/{run}/c4", "index": 4, "time": "2026-01-01T00:00:00Z", "metrics": {}}
    token = cluster.token_of(cluster.head(name))
    assert cluster.report(name, token=token, reports=5, joined=2, checkpoint=checkpoint, run_uri=f"/runs/{run}") == 202
    cluster.wait_phase(name, "Running")
    exported = cluster.job(name)
    cluster.delete(name)
    cluster.clear_pods(name)
    return exported


def read_run(cluster: Cluster, name: str) -> str:
    """Returns the run that the pods of the current attempt use."""
    data = cluster.config_map(cluster.status(name)["input"])["data"]
    return JobInput.from_json(data[FILE]).run_name


def check_continues(cluster: Cluster, exported: Object) -> None:
    name, uid = exported["metadata"]["name"], exported["metadata"]["uid"]
    run = exported["status"]["run"]["name"]
    wait_until("the new attempt", lambda: cluster.status(name).get("run", {}).get("formerUids") == [uid])

    def has_its_pods() -> bool:
        """Pods of the attempt before may still be there; the input of an attempt is created before its pods."""
        attempt = cluster.status(name)["attempt"]
        attempts = [pod["metadata"]["labels"]["railhead.dev/attempt"] for pod in cluster.pods(name).values()]
        return attempt >= 2 and attempts == [str(attempt)] * 3

    wait_until("its pods", has_its_pods)
    status = cluster.status(name)
    assert read_run(cluster, name) == run
    assert status["checkpoint"]["index"] == 4 and "restarts" not in status and "failure" not in status
    wait_until("its events", lambda: {event["reason"] for event in cluster.events(name)} >= {"Restored", "Resumed"})


@pytest.mark.parametrize("labels", [{}, VELERO], ids=["any tool", "velero"])
def test_a_job_continues_in_its_run_after_a_restore_with_its_status(cluster: Cluster, labels: dict[str, str]) -> None:
    """Without Velero's label the operator begins an attempt before the status arrives."""
    exported = train_and_export(cluster, "kept")
    cluster.make_again(exported, labels=labels)
    if labels:
        cluster.wait_phase("kept", "Pending")
    else:
        for pod in cluster.wait_pods("kept", 3).values():
            cluster.run_pod(pod)
        assert read_run(cluster, "kept") != exported["status"]["run"]["name"]
    cluster.restore_status(exported)
    check_continues(cluster, exported)


def test_a_job_that_velero_restores_without_its_status_does_not_train_again(cluster: Cluster) -> None:
    exported = train_and_export(cluster, "lone")
    cluster.make_again(exported, labels=VELERO)

    def find_reason() -> str:
        conditions = cluster.status("lone").get("conditions") or []
        return next((str(each["reason"]) for each in conditions if each["type"] == "Stalled"), "")

    wait_until("RestoredWithoutStatus", lambda: find_reason() == "RestoredWithoutStatus")
    assert not cluster.pods("lone")
    cluster.label("lone", {"velero.io/restore-name": None})
    cluster.wait_pods("lone", 3)
    assert cluster.status("lone")["attempt"] == 1
