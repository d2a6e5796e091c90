"""Somebody deletes a head that has not started yet, and the kubelet tells of its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, Object, wait_until
from tests.e2e.jobs import make_job

FINALIZER = "tests.railhead.dev/keep"
NEVER_MOUNTED = {
    "spec": {
        "containers": [{"name": "ray", "volumeMounts": [{"name": "absent", "mountPath": "/absent"}]}],
        "volumes": [{"name": "absent", "configMap": {"name": "there-is-none"}}],
    }
}


def find_waiting(pods: list[Object], head: str) -> Object | None:
    """The head, once its node has it."""
    return next((pod for pod in pods if pod["metadata"]["name"] == head and pod["spec"].get("nodeName")), None)


@pytest.mark.slow  # tests/unit/planning/facts/test_unstarted.py has the rule
@pytest.mark.node
def test_a_head_that_is_deleted_before_it_runs_costs_nothing(cluster: Cluster) -> None:
    """A finalizer keeps it, so that the operator certainly sees how the kubelet ends a pod that it never started."""
    resources = {"cpu": "200m", "memory": "3Gi"}
    budgets: dict[str, Any] = {"disruptionLimit": 0, "noProgressLimit": 0}
    head_spec = {"resources": resources, "podTemplate": NEVER_MOUNTED}
    cluster.apply(make_job("unstarted", cluster.image, head=head_spec, **budgets))
    wait_until("its pods", lambda: len(cluster.pods("unstarted")) == 3, tell=lambda: cluster.tell("unstarted"))
    head = cluster.head_pod("unstarted")
    wait_until("a node for the head", lambda: find_waiting(cluster.pods("unstarted"), head))
    cluster("patch", "pod", head, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": [FINALIZER]}}))
    try:
        check_deletion(cluster, head)
    finally:  # or its namespace would stay forever
        cluster("patch", "pod", head, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": None}}))
    cluster.delete_job("unstarted")


def check_deletion(cluster: Cluster, head: str) -> None:
    cluster("delete", "pod", head, "--wait=false")
    ask = lambda: cluster.status("unstarted").get("failure")  # noqa: E731
    failure = wait_until("the end of the attempt", ask, tell=lambda: cluster.tell("unstarted"))
    assert (failure["class"], failure["reason"]) == ("Startup", "PodDeleted"), failure
    if not cluster.is_local:
        [container] = cluster.get("pod", head)["status"]["containerStatuses"]
        assert container["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
        assert f"its finalizer {FINALIZER} keeps it" in failure["message"]
    follower = head.replace("-1-head", "-2-head")
    wait_until("attempt 2", lambda: follower in cluster.pod_names("unstarted"), tell=lambda: cluster.tell("unstarted"))
    status = cluster.status("unstarted")
    assert "restarts" not in status and "avoidedNodes" not in status, status
