"""What is left of a finished job, on a real API server, after its time."""

from __future__ import annotations

from tests.operator.cluster import Cluster
from tests.operator.test_writes import play
from tests.waiting import wait_until


def test_children_are_removed_after_the_time_also_by_an_operator_that_was_restarted(cluster: Cluster) -> None:
    play(cluster, "kept")
    play(cluster, "cleaned")
    cluster.operator.stop()
    cluster.change("cleaned", ttlSecondsAfterFinished=1)
    cluster.operator.start()
    wait_until("it is cleaned up", lambda: cluster.status("cleaned").get("cleanUpTime"))
    wait_until("its pods are gone", lambda: not cluster.pods("cleaned"))
    assert cluster.children("cleaned") == []
    assert {name.partition("/")[0] for name in cluster.children("kept")} == {
        "pods",
        "services",
        "secrets",
        "configmaps",
    }
    job = cluster.job("cleaned")
    assert job["status"]["phase"] == "Succeeded"
    assert {c["type"] for c in job["status"]["conditions"] if c["status"] == "True"} == {"Complete"}
    assert job["status"]["checkpoint"]["index"] == 1
    assert job["spec"]["ttlSecondsAfterFinished"] == 1
    assert not job["metadata"].get("finalizers")
