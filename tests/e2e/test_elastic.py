"""An elastic job as its user sees it: `kubectl patch` for more workers and for fewer."""

from __future__ import annotations

import json

import pytest

from tests.e2e.cluster import Cluster, Object, wait_until
from tests.e2e.jobs import make_job, read_starts, with_config

SCALING: Object = {
    "minWorkers": 1,
    "maxWorkers": 2,
    "desiredWorkers": 1,
    "elasticResizeMonitorIntervalSeconds": 0,
    "resourcesPerWorker": {"cpu": "200m", "memory": "512Mi"},
}


def count_workers(cluster: Cluster) -> tuple[int, int]:
    """Ray Train workers in the running group, and worker pods that have joined."""
    status = cluster.status("elastic")
    progress = status.get("progress") or {}
    workers = progress.get("workers", 0) if progress.get("state") == "RUNNING" else 0
    return workers, status["workers"]["joined"]


def resize(cluster: Cluster, workers: int) -> None:
    patch = {"spec": {"scaling": {"desiredWorkers": workers}}}
    cluster("patch", "trainjobs.railhead.dev", "elastic", "--type=merge", "-p", json.dumps(patch))


def wait_workers(cluster: Cluster, workers: int) -> None:
    wait_until(
        f"{workers} workers", lambda: count_workers(cluster) == (workers, workers), tell=lambda: cluster.tell("elastic")
    )


@pytest.mark.slow
def test_workers_are_added_and_removed_while_the_job_trains(cluster: Cluster) -> None:
    job = make_job("elastic", cluster.image, scaling=SCALING)
    cluster.apply(with_config(job, epochs=10_000, seconds=0.5))
    wait_workers(cluster, 1)
    head = cluster.head_pod("elastic")

    resize(cluster, 2)
    wait_workers(cluster, 2)
    status = cluster.status("elastic")
    assert status["workers"] == {"desired": 2, "ready": 2, "joined": 2}
    assert (status["phase"], status["attempt"], status["round"]) == ("Running", 1, 0)

    resize(cluster, 1)
    wait_workers(cluster, 1)
    wait_until("one worker pod", lambda: len(cluster.pods("elastic")) == 2)
    status = cluster.status("elastic")
    assert "resize" not in status
    assert (status["attempt"], status["round"], status["head"]["pod"]) == (1, 1, head), "a smaller group is a new round"
    assert "workerLosses" not in status, "nothing was lost"

    wait_until("a start of each group", lambda: len(read_starts(cluster, "elastic")) >= 3)
    starts = read_starts(cluster, "elastic")
    assert starts[0] == 0 and starts == sorted(set(starts)), starts
    assert len(starts) == 3, "each change restarted the group once"
    with pytest.raises(Exception, match="must be between them"):
        resize(cluster, 3)
    cluster.delete_job("elastic")
