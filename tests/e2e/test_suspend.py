"""A job that is suspended, changed and resumed, with real Ray."""

from __future__ import annotations

import json
from typing import Any

import pytest

from railhead.local.install import KubectlFailed
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import COUNTING, make_job, read_starts, with_config

# Needs more memory than its pod has, from the third epoch on.
GREEDY = COUNTING.replace(
    "        time.sleep(", "        hoard = b'x' * (5 << 29 if epoch == 2 else 1)\n        time.sleep("
)


def patch(cluster: Cluster, name: str, **spec: Any) -> None:
    cluster("patch", "rtj", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def with_memory(amount: str, **spec: Any) -> dict[str, Any]:
    """A change that resumes the job."""
    return {"suspend": False, "scaling": {"resourcesPerWorker": {"memory": amount}}, **spec}


# tests/operator covers the order of the steps on a real API server.
@pytest.mark.slow
def test_a_suspended_job_commits_releases_its_pods_and_resumes(cluster: Cluster) -> None:
    cluster.apply(with_config(make_job("rests", cluster.image), epochs=8, seconds=1.5))
    wait_until(
        "two commits",
        lambda: (cluster.status("rests").get("checkpoint") or {}).get("index", -1) >= 1,
        tell=lambda: cluster.tell("rests"),
    )
    with pytest.raises(KubectlFailed, match="wait for phase Suspended"):
        patch(cluster, "rests", **with_memory("768Mi"))
    patch(cluster, "rests", suspend=True)
    cluster.wait_phase("rests", "Suspended")
    assert not cluster.pods("rests")
    status = cluster.status("rests")
    committed = status["checkpoint"]["index"]
    patch(cluster, "rests", **with_memory("768Mi", trainer={"trainLoopConfig": {"epochs": 10}}))
    cluster.wait_phase("rests", "Running")
    workers = [pod for pod in cluster.pods("rests") if not pod["metadata"]["name"].endswith("-head")]
    assert {pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in workers} == {"3Gi"}
    status = cluster.wait_end("rests")
    assert status["phase"] == "Succeeded", cluster.tell("rests")
    assert status["attempt"] == 2 and "failure" not in status
    assert not any((status.get("restarts") or {}).values())
    assert read_starts(cluster, "rests") == [0, committed + 1], "every epoch was trained once"
    assert status["checkpoint"]["index"] == 9, "by the changed trainLoopConfig"
    cluster.delete_job("rests")


@pytest.mark.slow
@pytest.mark.node
def test_a_job_that_runs_out_of_memory_is_suspended_changed_and_resumed(cluster: Cluster) -> None:
    if cluster.is_local:
        pytest.skip("no kubelet limits the memory of a pod")
    cluster.apply(with_config(make_job("greedy", cluster.image, code=GREEDY, backoffLimit=900), epochs=5))
    wait_until(
        "it runs out of memory",
        lambda: (cluster.status("greedy").get("restarts") or {}).get("application", 0) >= 1,
        tell=lambda: cluster.tell("greedy"),
    )
    patch(cluster, "greedy", suspend=True)
    committed = cluster.wait_phase("greedy", "Suspended")["checkpoint"]["index"]
    patch(cluster, "greedy", **with_memory("3Gi"))
    status = cluster.wait_end("greedy")
    assert status["phase"] == "Succeeded", cluster.tell("greedy")
    assert status["checkpoint"]["index"] == 4 and status["restarts"]["application"] >= 1
    assert read_starts(cluster, "greedy")[-1] == committed + 1, "it resumed from the last checkpoint"
    cluster.delete_job("greedy")
