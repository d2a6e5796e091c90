"""A job that is suspended and resumed, with real Ray."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.jobs import make_job, read_starts, with_config


# tests/operator covers the order of the steps on a real API server.
@pytest.mark.slow
def test_a_suspended_job_commits_releases_its_pods_and_resumes(cluster: Cluster) -> None:
    cluster.apply(with_config(make_job("rests", cluster.image), epochs=8, seconds=1.5))
    wait_until(
        "two commits",
        lambda: (cluster.status("rests").get("checkpoint") or {}).get("index", -1) >= 1,
        seconds=180,
        tell=lambda: cluster.tell("rests"),
    )
    cluster("patch", "rtj", "rests", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    cluster.wait_phase("rests", "Suspended")
    assert not cluster.pods("rests")
    status = cluster.status("rests")
    committed = status["checkpoint"]["index"]
    cluster("patch", "rtj", "rests", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    status = cluster.wait_end("rests")
    assert status["phase"] == "Succeeded", cluster.tell("rests")
    assert status["attempt"] == 2 and "failure" not in status
    assert not any((status.get("restarts") or {}).values())
    assert read_starts(cluster, "rests") == [0, committed + 1], "every epoch was trained once"
    cluster.delete_job("rests")
