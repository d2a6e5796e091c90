"""Pods that stay Terminating, because no kubelet reports their end: on a real API server, by its own timestamps."""

from __future__ import annotations

import pytest

from tests.operator.cluster import Cluster, Object
from tests.waiting import wait_until


def train(cluster: Cluster, job: str, *, node: str) -> dict[str, Object]:
    """All pods of a job with two workers run on this node."""
    node_body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    assert cluster.server.request("POST", "/api/v1/nodes", node_body).status == 201
    cluster.apply(job, workers=2)
    pods = cluster.wait_pods(job, 3)
    for pod in pods.values():
        cluster.bind_pod(pod, node)
        cluster.run_pod(pod)
    cluster.wait_phase(job, "Starting")
    return pods


def of_attempt(cluster: Cluster, job: str, attempt: int) -> list[str]:
    return [name for name in cluster.pods(job) if f"-{attempt}-" in name]


def test_a_worker_that_never_ends_is_replaced_under_a_new_name(cluster: Cluster) -> None:
    pods = train(cluster, "split", node="silent-1")
    lost = next(pod for name, pod in pods.items() if name.endswith("-w1-0"))
    cluster.ask_to_go(lost, seconds=1)
    name = lost["metadata"]["name"].removesuffix("-0") + "-1"
    wait_until("the replacement", lambda: name in cluster.pods("split"))
    assert cluster.pod(lost["metadata"]["name"])["metadata"]["deletionTimestamp"]
    status = cluster.status("split")
    assert (status["attempt"], status["round"], status["workerLosses"]["rounds"]) == (1, 1, 1)


@pytest.mark.slow  # 30 s beyond a grace period, in real time
def test_a_head_that_never_ends_is_abandoned_after_its_grace_period(cluster: Cluster) -> None:
    pods = train(cluster, "lost", node="silent-2")
    for pod in pods.values():
        cluster.ask_to_go(pod, seconds=1)
    wait_until("the loss", lambda: cluster.status("lost").get("failure"))
    assert cluster.status("lost")["attempt"] == 1 and not of_attempt(cluster, "lost", 2)
    wait_until("attempt 2", lambda: len(of_attempt(cluster, "lost", 2)) == 3, seconds=60)
    old = cluster.pod(f"{cluster.status('lost')['failure']['pod']}")
    assert old["metadata"]["deletionTimestamp"] and old["status"]["phase"] == "Running"
    events = wait_until("the event", lambda: [e for e in cluster.events("lost") if e["reason"] == "PodsLeftBehind"])
    assert f"{old['metadata']['name']} on node silent-2" in events[0]["message"]
    assert cluster.status("lost")["restarts"]["disruptions"] == 1
