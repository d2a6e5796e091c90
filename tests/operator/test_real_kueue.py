"""Railhead beside Kueue's own program: its pod integration. Needs RAILHEAD_KUEUE (tests/kueue)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.api.server import ApiServer
from tests.kueue.client import Installation, create_object
from tests.kueue.real import RealInstallation
from tests.operator.queue_stage import QUOTA, Stage
from tests.operator.served_kueue import needs_real

pytestmark = [pytest.mark.slow, needs_real]
PODS = {"frameworks": ["batch/job", "pod"]}
EXTERNAL = {**PODS, "externalFrameworks": ["TrainJob.v1alpha1.railhead.dev"]}


@pytest.fixture
def kueue(installation: Installation) -> RealInstallation:
    assert isinstance(installation, RealInstallation)
    return installation


@pytest.fixture
def stage(stage: Stage) -> Stage:
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
