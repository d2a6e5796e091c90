"""What remains of a finished job, on a real API server, after its time."""

from __future__ import annotations

from tests.operator.cluster import JOBS, Cluster
from tests.operator.test_writes import play
from tests.waiting import wait_until


def test_children_and_jobs_are_deleted_after_their_times_also_by_a_restarted_operator(cluster: Cluster) -> None:
    for name in ("kept", "cleaned", "gone"):
        play(cluster, name)
    uid = cluster.job("gone")["metadata"]["uid"]
    cluster.operator.stop()
    cluster.change("cleaned", keepPodsSeconds=1)
    cluster.change("gone", ttlSecondsAfterFinished=1)
    cluster.operator.start()
    wait_until("it is cleaned up", lambda: cluster.status("cleaned").get("cleanUpTime"))
    wait_until("its pods are gone", lambda: not cluster.pods("cleaned"))
    wait_until("the Secret is collected", lambda: cluster.children("cleaned") == [], seconds=90)
    assert {name.partition("/")[0] for name in cluster.children("kept")} == {
        "pods",
        "secrets",
        "configmaps",
    }
    job = cluster.job("cleaned")
    assert job["status"]["phase"] == "Succeeded"
    assert {c["type"] for c in job["status"]["conditions"] if c["status"] == "True"} == {"Complete"}
    assert job["status"]["checkpoint"]["index"] == 1
    assert job["spec"]["keepPodsSeconds"] == 1
    assert not job["metadata"].get("finalizers")
    jobs = JOBS.format(cluster.namespace)
    wait_until("the other is deleted", lambda: cluster.server.request("GET", f"{jobs}/gone").status == 404)
    wait_until("its children are collected", lambda: not cluster.children_of(uid), seconds=90)
