"""`railhead doctor` against a real API server: as its administrator, and as users with few rights or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from railhead._version import __version__
from railhead.api.served import PATH as SCHEMA
from railhead.cli.main import main
from railhead.client.cluster.examine import PROBES
from railhead.client.cluster.readiness import ERROR, NOT_PERMITTED, OK, WARNING
from railhead.client.exit_codes import ExitCode
from railhead.kube.clock import micro_now
from railhead.kube.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    LEASE,
    NAMESPACE,
    NODE,
    SELF_ACCESS_REVIEW,
    STORAGE_CLASS,
    Kind,
)
from railhead.local.control_plane import ControlPlane
from tests.api.conftest import RUNS_COMMANDS, Run
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.test_client import kubeconfig_without_rights
from tests.api.trainjobs import PATH, make_job
from tests.waiting import wait_until

pytestmark = RUNS_COMMANDS
LABELS = {"app.kubernetes.io/name": "railhead", "app.kubernetes.io/component": "operator"}
VERSION = {"app.kubernetes.io/version": __version__}
PODS = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": PODS}
CLAIMS = {"storageclass.kubernetes.io/is-default-class": "true"}
ALL_RIGHTS = [{"apiGroups": ["railhead.dev"], "resources": ["trainjobs"], "verbs": ["*"]}]
Checks = dict[str, dict[str, Any]]
Parts = tuple[Kind, str, str, dict[str, Any], dict[str, Any]]


def make_parts(jobs: str) -> list[Parts]:
    """Returns kind, namespace, name, object and status of each part; `jobs`: the namespace of jobs."""
    lease = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": micro_now()}
    slice_labels = {"kubernetes.io/service-name": "kube-dns"}
    endpoints = [{"addresses": ["10.0.0.10"], "conditions": {"ready": True}}]
    dns = {"addressType": "IPv4", "endpoints": endpoints, "ports": []}
    gpus = {"nvidia.com/gpu": "8"}
    secure = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        (NAMESPACE, "", jobs, {"metadata": {"labels": secure}}, {}),
        (DEPLOYMENT, "default", "operator", {"metadata": {"labels": {**LABELS, **VERSION}}, "spec": WORKLOAD}, {}),
        (LEASE, "default", "railhead-operator", {"metadata": {"labels": LABELS}, "spec": lease}, {}),
        (STORAGE_CLASS, "", "fast", {"metadata": {"annotations": CLAIMS}, "provisioner": "example.com/fast"}, {}),
        (NODE, "", "gpu-1", {}, {"capacity": gpus, "allocatable": gpus}),
        (DAEMON_SET, "kube-system", "cilium", {"spec": WORKLOAD}, {}),
        (ENDPOINT_SLICE, "kube-system", "kube-dns-a", {"metadata": {"labels": slice_labels}, **dns}, {}),
    ]


@pytest.fixture(autouse=True)
def definition(api_server: ApiServer) -> None:
    """The schema is served a moment after the resource."""
    wait_until("the schema", lambda: api_server.request("GET", SCHEMA).status == 200)


@pytest.fixture
def ready(api_server: ApiServer) -> Iterator[str]:
    """A cluster with an operator, a GPU and all else; its namespace of jobs."""
    jobs = f"doctor-{uuid4()}"  # a namespace takes a while to go
    made = make_parts(jobs)
    for kind, namespace, name, obj, status in made:
        body = {**obj, "metadata": {"name": name, **obj.get("metadata", {})}}
        answer = api_server.request("POST", kind.path(namespace=namespace), body)
        assert answer.status == 201, answer.message
        if status:
            path = kind.path(namespace=namespace, name=name, subresource="status")
            answer = api_server.request("PATCH", path, {"status": status}, content_type=MERGE_PATCH)
            assert answer.status == 200, answer.message
    yield jobs
    for kind, namespace, name, *_ in reversed(made):
        assert api_server.request("DELETE", kind.path(namespace=namespace, name=name)).status in (200, 202)


def run_doctor(config: Path | str, capsys: pytest.CaptureFixture[str], namespace: str) -> tuple[int, Checks]:
    code = main(["doctor", "--kubeconfig", str(config), "-n", namespace, "-o", "json"])
    return code, {check["subject"]: check for check in json.loads(capsys.readouterr().out)["checks"]}


def is_allowed(server: ApiServer, namespace: str, group: str, resource: str, verb: str) -> bool:
    """Whether the guest may do it."""
    plural, _, subresource = resource.partition("/")
    wanted = {"namespace": namespace, "verb": verb, "group": group, "resource": plural, "subresource": subresource}
    user = "system:serviceaccount:default:guest"
    answer = server.request("POST", SELF_ACCESS_REVIEW.path(), {"spec": {"resourceAttributes": wanted}}, user=user)
    assert answer.status == 201, answer.message
    return bool(answer.body["status"]["allowed"])


def test_a_cluster_without_an_operator_is_not_ready(
    run: Run, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks = run_doctor(control_plane.kubeconfig, capsys, "default")
    assert code == ExitCode.FAILED
    assert list(checks) == ["Kubernetes", *PROBES]
    levels = {subject: check["level"] for subject, check in checks.items()}
    assert {subject: levels[subject] for subject in ("Kubernetes", "CRD", "Operator", "Leader", "Rights", "DNS")} == {
        "Kubernetes": OK,
        "CRD": OK,
        "Operator": ERROR,
        "Leader": WARNING,
        "Rights": OK,
        "DNS": WARNING,
    }
    assert f"of Railhead {__version__} is served" in checks["CRD"]["message"]


def test_a_cluster_with_all_parts_is_ready_but_for_pods_that_no_node_runs(
    run: Run, ready: str, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    _, checks = run_doctor(control_plane.kubeconfig, capsys, ready)
    assert {subject for subject, check in checks.items() if check["level"] != OK} == {"Operator"}
    assert checks["Operator"]["message"] == f"default/operator {__version__} has 0 ready pods."
    assert checks["GPUs"]["message"] == "1 of 1 nodes offer GPUs: 8 nvidia.com/gpu."
    assert checks["NetworkPolicy"]["message"] == "The network plugin cilium enforces NetworkPolicies."


def test_a_user_of_one_namespace_learns_what_is_not_permitted(
    run: Run,
    ready: str,
    control_plane: ControlPlane,
    api_server: ApiServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = kubeconfig_without_rights(control_plane, api_server, tmp_path)
    code, checks = run_doctor(config, capsys, ready)
    assert (code, checks["Rights"]["level"]) == (ExitCode.FAILED, ERROR)
    assert "get trainjobs, list trainjobs" in checks["Rights"]["message"]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ready}"
    api_server.request("POST", f"{rbac}/roles", {"metadata": {"name": "jobs"}, "rules": ALL_RIGHTS})
    subject = {"kind": "ServiceAccount", "name": "guest", "namespace": "default"}
    for kind, name in (("ClusterRole", "edit"), ("Role", "jobs")):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
        assert api_server.request("POST", f"{rbac}/rolebindings", binding).status == 201
    # The authorizer, and the controller that aggregates `edit`, see new objects a moment later.
    wait_until("the right to exec", lambda: is_allowed(api_server, ready, "", "pods/exec", "create"))
    wait_until("the right to jobs", lambda: is_allowed(api_server, ready, "railhead.dev", "trainjobs", "delete"))
    code, checks = run_doctor(config, capsys, ready)
    levels = {subject: check["level"] for subject, check in checks.items()}
    assert code == ExitCode.DENIED, levels
    of_the_cluster = {"Operator", "Leader", "Storage", "GPUs", "NetworkPolicy", "DNS"}
    assert {subject for subject, level in levels.items() if level == NOT_PERMITTED} == of_the_cluster
    assert {level for subject, level in levels.items() if subject not in of_the_cluster} == {OK}
    assert 'cannot list resource "nodes"' in checks["GPUs"]["message"]


def test_a_job_that_no_operator_sees_is_no_finding_in_its_first_minute(
    run: Run, control_plane: ControlPlane, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert api_server.request("POST", PATH, make_job({})).status == 201
    _, checks = run_doctor(control_plane.kubeconfig, capsys, "default")
    message = "An operator has seen 0 TrainJobs in namespace default; 1 more are younger than a minute."
    assert checks["TrainJobs"]["message"] == message
