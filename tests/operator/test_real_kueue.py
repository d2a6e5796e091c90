"""Railhead beside Kueue's own program: its pod integration. Needs RAILHEAD_KUEUE (tests/kueue)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.api.server import ApiServer
from tests.kueue.client import Installation, create_object
from tests.kueue.real import RealInstallation
from tests.operator.conftest import make_cluster
from tests.operator.queue_stage import QUOTA, Stage
from tests.operator.racks import Racks, find_node
from tests.operator.running import RunningOperator
from tests.operator.served_kueue import REAL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REAL not in os.environ, reason=f"{REAL} doesn't name a folder with Kueue's program"),
]
PODS = {"frameworks": ["batch/job", "pod"]}
EXTERNAL = {**PODS, "externalFrameworks": ["TrainJob.v1alpha1.railhead.dev"]}


@pytest.fixture
def kueue(installation: Installation) -> RealInstallation:
    assert isinstance(installation, RealInstallation)
    return installation


@pytest.fixture
def stage(server: ApiServer, kueue_operator: RunningOperator, kueue: RealInstallation) -> Stage:
    cluster = make_cluster(server, kueue_operator)
    stage = Stage(cluster, kueue.at(cluster.namespace))
    stage.kueue.make_queue(gpus=QUOTA)
    return stage


@contextmanager
def may_read_jobs(server: ApiServer) -> Iterator[None]:
    """Meanwhile Kueue's manager may read TrainJobs."""
    name, rights = "kueue-train-jobs", "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["railhead.dev"], "resources": ["trainjobs"], "verbs": ["get", "list", "watch"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts"}
    metadata = {"metadata": {"name": name}}
    create_object(server, f"{rights}/clusterroles", {**metadata, "kind": "ClusterRole", "rules": [rule]})
    binding = {**metadata, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
    create_object(server, f"{rights}/clusterrolebindings", binding)
    try:
        yield
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            server.request("DELETE", f"{rights}/{plural}/{name}")


def find_gates(stage: Stage, job: str) -> list[bool]:
    """Whether each pod of the job is gated."""
    return [bool(pod["spec"].get("schedulingGates")) for pod in stage.cluster.pods(job).values()]


def test_kueue_gates_the_pods_of_owners_that_it_does_not_know(stage: Stage, kueue: RealInstallation) -> None:
    """Which is why docs/how-to/queues.md excludes the jobs' namespaces from the pod integration."""
    with kueue.configured(manageJobsWithoutQueueName=True, integrations=PODS):
        stage.submit("job")
        stage.wait_pods("job", 3)
        assert all(find_gates(stage, "job"))


def test_kueue_gates_no_pods_of_jobs_that_it_knows_as_an_external_framework(
    stage: Stage, kueue: RealInstallation
) -> None:
    """It looks at the owner of each pod, for which it needs the rights."""
    with kueue.configured(manageJobsWithoutQueueName=True, integrations=EXTERNAL), may_read_jobs(stage.cluster.server):
        stage.submit("job")
        stage.wait_pods("job", 3)
        assert not any(find_gates(stage, "job"))
        stage.submit("plain", gpus=1, queue="")
        stage.wait_pods("plain", 2)
        assert not any(find_gates(stage, "plain"))


def test_kueue_gives_pods_of_a_lost_node_another_one(
    server: ApiServer, kueue_operator: RunningOperator, kueue: RealInstallation
) -> None:
    """By Workload.status.unhealthyNodes, which Kueue itself writes; the job keeps its quota and its other pods."""
    cluster = make_cluster(server, kueue_operator)
    stage = Stage(cluster, kueue.at(cluster.namespace))
    racks = Racks(stage)
    try:
        racks.make(a="a1 a2", b="b1")
        stage.submit("job", gpus=3)
        nodes = racks.wait_nodes("job", 4)
        lost = next(node for slot, node in sorted(nodes.items()) if slot != "head" and node != nodes["head"])
        stage.start("job", 4)
        workload = stage.workload("job")["metadata"]["uid"]
        racks.lose(lost)
        for pod in cluster.pods("job").values():
            if find_node(pod)[1] == lost:
                cluster.remove_pod(pod)
        stage.until(
            "other nodes", lambda: len(cluster.pods("job")) == 4 and lost not in racks.wait_nodes("job", 4).values()
        )
        assert stage.workload("job")["metadata"]["uid"] == workload
        assert stage.reason("job", "Evicted") == ""
    finally:
        racks.remove()
