"""Railhead beside Kueue's own program: its pod integration. Needs RAILHEAD_KUEUE (tests/kueue)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.api.server import ApiServer
from tests.kueue.client import Installation, create_object
from tests.kueue.real import NAMESPACE, RealInstallation
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


@pytest.fixture
def default_queue(stage: Stage) -> None:
    """A LocalQueue of the name that Kueue's webhook for pods looks for."""
    stage.kueue.make_local_queue("default")


def find_reason(stage: Stage, job: str, reason: str) -> str:
    """Returns the message of the job's condition with this reason, or an empty string."""
    conditions = stage.cluster.status(job).get("conditions", ())
    return next((each["message"] for each in conditions if each["reason"] == reason), "")


def test_kueue_gates_the_pods_of_owners_that_it_does_not_know(stage: Stage, kueue: RealInstallation) -> None:
    """The job says what ends that, and its pods, which have Kueue's finalizer, go with a suspension."""
    with kueue.configured(manageJobsWithoutQueueName=True, integrations=PODS):
        stage.submit("job")
        stage.wait_pods("job", 3)
        assert all(find_gates(stage, "job"))
        message = stage.until("job HeldByKueue", lambda: find_reason(stage, "job", "HeldByKueue"))
        assert "in no LocalQueue" in message
        stage.cluster.change("job", suspend=True)
        stage.wait_phase("job", "Suspended")
        assert not stage.cluster.pods("job")


@pytest.mark.usefixtures("default_queue")
def test_a_local_queue_named_default_takes_the_pods_of_an_admitted_job(stage: Stage) -> None:
    """With Kueue as its chart installs it. Another name of the LocalQueue is a remedy."""
    stage.submit("job")
    stage.wait_pods("job", 3)
    assert all(find_gates(stage, "job")) and stage.is_admitted("job")
    message = stage.until("job HeldByKueue", lambda: find_reason(stage, "job", "HeldByKueue"))
    assert "in LocalQueue default" in message and "LocalQueue team has admitted the whole job" in message
    stage.kueue.delete_local_queue("default")
    stage.cluster.change("job", suspend=True)
    stage.wait_phase("job", "Suspended")
    stage.cluster.change("job", suspend=False)
    stage.wait_pods("job", 3, attempt=2)
    assert not any(find_gates(stage, "job"))


@pytest.mark.usefixtures("default_queue")
def test_a_job_without_a_queue_is_told_what_exempts_its_pods(stage: Stage) -> None:
    """Kueue admits as many of them as the quota of `default` has room for; the others keep their gate."""
    stage.submit("plain", gpus=QUOTA + 1, queue="")
    stage.wait_pods("plain", QUOTA + 2)
    stage.until("one gate is left", lambda: sum(find_gates(stage, "plain")) == 1)
    message = stage.until("plain HeldByKueue", lambda: find_reason(stage, "plain", "HeldByKueue"))
    assert "in LocalQueue default" in message and "each pod of the job waits for quota by itself" in message
    assert "externalFrameworks" in message and "suspend and resume" in message
    stage.cluster.change("plain", suspend=True)
    stage.wait_phase("plain", "Suspended")
    assert not stage.cluster.pods("plain")


@pytest.mark.usefixtures("default_queue")
def test_it_takes_none_of_a_job_that_names_its_queue_by_the_label(stage: Stage, kueue: RealInstallation) -> None:
    """Once Kueue knows TrainJobs. The field does not suffice."""
    with kueue.configured(integrations=EXTERNAL), may_read_jobs(stage.cluster.server):
        scaling = {"numWorkers": 1, "useGPU": True, "workersPerPod": 1}
        stage.cluster.apply("labeled", labels={"kueue.x-k8s.io/queue-name": "team"}, scaling=scaling)
        stage.wait_pods("labeled", 2)
        assert stage.is_admitted("labeled") and not any(find_gates(stage, "labeled"))
        stage.submit("named", gpus=1)
        stage.wait_pods("named", 2)
        assert all(find_gates(stage, "named"))


@pytest.mark.usefixtures("default_queue")
def test_it_takes_none_in_a_namespace_that_kueue_does_not_manage(stage: Stage, kueue: RealInstallation) -> None:
    """The job's own Workload is admitted there."""
    left_out = [stage.cluster.namespace, "kube-system", NAMESPACE]
    others = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": left_out}
    with kueue.configured(managedJobsNamespaceSelector={"matchExpressions": [others]}):
        stage.submit("job")
        stage.wait_pods("job", 3)
        assert stage.is_admitted("job") and not any(find_gates(stage, "job"))


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
