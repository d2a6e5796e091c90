"""The deadlines of a job, as seen by its user, on the API server's clock."""

from __future__ import annotations

from tests.operator.cluster import Cluster
from tests.waiting import wait_until


def test_a_start_that_takes_too_long_releases_the_pods_and_is_retried(cluster: Cluster) -> None:
    cluster.apply("slow", workers=1, startDeadlineSeconds=5)
    first = set(cluster.wait_pods("slow", 2))
    wait_until("the loss", lambda: cluster.status("slow").get("failure"), seconds=60)
    cluster.change("slow", startDeadlineSeconds=None)  # before the next attempt begins, which is some seconds later
    wait_until("attempt 2", lambda: cluster.status("slow").get("attempt") == 2, seconds=60)
    status = cluster.status("slow")
    assert (status["failure"]["class"], status["failure"]["reason"]) == ("Startup", "StartDeadlineExceeded")
    assert not any((status.get("restarts") or {}).values()), "a start that takes too long spends nothing"
    wait_until("the pods of attempt 2 alone", lambda: not first & set(cluster.pods("slow")) and cluster.pods("slow"))
    for pod in cluster.wait_pods("slow", 2).values():
        cluster.run_pod(pod)
    cluster.wait_phase("slow", "Starting")


def test_the_jobs_deadline_may_be_set_while_it_runs(cluster: Cluster) -> None:
    cluster.apply("long", workers=1)
    for pod in cluster.wait_pods("long", 2).values():
        cluster.bind_pod(pod)
        cluster.run_pod(pod)
    cluster.wait_phase("long", "Starting")
    cluster.change("long", activeDeadlineSeconds=1)
    status = cluster.wait_phase("long", "Failed")
    assert status["failure"]["reason"] == "ActiveDeadlineExceeded"
    assert {c["type"] for c in status["conditions"] if c["status"] == "True"} == {"Failed", "Stalled"}
    wait_until("the deletion of the head", lambda: cluster.head("long")["metadata"].get("deletionTimestamp"))
    [worker] = [pod for name, pod in cluster.pods("long").items() if not name.endswith("-head")]
    assert not worker["metadata"].get("deletionTimestamp"), "the driver may still commit"
    cluster.remove_pod(cluster.head("long"))
    wait_until("the worker goes", lambda: cluster.pod(worker["metadata"]["name"])["metadata"].get("deletionTimestamp"))
