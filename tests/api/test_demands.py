"""What a cluster demands of the objects of a job: labels on each of them, and pods that leave their ids to it.

Real admission judges them, by policies: one that wants a label, and one with what OpenShift's restricted-v2 refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from railhead.api.parsed_spec import parse_spec
from railhead.planning.planner import plan
from tests.api.conftest import Cluster
from tests.api.server import Answer, ApiServer
from tests.api.trainjobs import PATH, make_job
from tests.unit.builders import make_observed
from tests.waiting import wait_until

Object = dict[str, Any]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
GROUPS = {"NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies")}
CORE = {"Pod": "pods", "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services"}
HAS_TEAM = (
    "has(object.metadata.labels) && 'team' in object.metadata.labels && "
    "has(object.metadata.annotations) && 'example.com/owner' in object.metadata.annotations"
)
# The ids are from the range of the namespace there, and admission sets them where the pod has none.
RESTRICTED_V2 = (
    "!has(object.spec.securityContext.runAsUser) && !has(object.spec.securityContext.fsGroup) && "
    "object.spec.containers.all(c, !has(c.securityContext.runAsUser) && "
    "c.securityContext.allowPrivilegeEscalation == false && c.securityContext.capabilities.drop == ['ALL'])"
)
POLICIES: dict[str, tuple[str, list[str]]] = {
    "labelled": (HAS_TEAM, ["pods", "configmaps", "secrets", "services", "networkpolicies"]),
    "without-ids": (RESTRICTED_V2, ["pods"]),
}
DEMANDED = {"labels": {"team": "vision"}, "annotations": {"example.com/owner": "vision@example.com"}}


def is_refused(server: ApiServer, pod: Object) -> bool:
    return create(server, pod).status >= 400


@pytest.fixture(scope="module")
def strict(api_server: ApiServer) -> Iterator[ApiServer]:
    """Makes a namespace for each policy, and waits until it is in force."""
    for namespace, (expression, resources) in POLICIES.items():
        api_server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        assert api_server.request("POST", account, {"metadata": {"name": "default"}}).status in (201, 409)
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": resources}
        here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        constraints = {"namespaceSelector": here, "resourceRules": [rule]}
        policy = {"matchConstraints": constraints, "validations": [{"expression": expression}]}
        binding = {"policyName": namespace, "validationActions": ["Deny"]}
        for plural, spec in (
            ("validatingadmissionpolicies", policy),
            ("validatingadmissionpolicybindings", binding),
        ):
            answer = api_server.request(
                "POST", f"{ADMISSION}/{plural}", {"metadata": {"name": namespace}, "spec": spec}
            )
            assert answer.status == 201, answer.message
    for namespace in POLICIES:
        [pod, *_] = [each for each in build_children(namespace, {}) if each["kind"] == "Pod"]
        wait_until(f"the policy of {namespace}", partial(is_refused, api_server, pod), seconds=60)
    yield api_server
    for namespace in POLICIES:
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            api_server.request("DELETE", f"{ADMISSION}/{plural}/{namespace}")
        api_server.request("DELETE", f"/api/v1/namespaces/{namespace}")


def build_children(namespace: str, changes: Object) -> list[Object]:
    """Returns the objects that the operator creates for the job."""
    spec = parse_spec(make_job(changes)["spec"])
    creates = plan(make_observed(spec=spec, namespace=namespace)).creates
    return [dict(create.build()) for create in creates]


def create(server: ApiServer, child: Object) -> Answer:
    group, plural = GROUPS.get(child["kind"]) or ("/api/v1", CORE[child["kind"]])
    path = f"{group}/namespaces/{child['metadata']['namespace']}/{plural}"
    return server.request("POST", path, child, dryRun="All", fieldValidation="Strict")


def test_the_childrens_metadata_satisfies_a_policy_on_labels_and_annotations(strict: ApiServer) -> None:
    refused = {each["kind"] for each in build_children("labelled", {}) if create(strict, each).status != 201}
    assert refused == {"Pod", "ConfigMap", "Secret", "Service"}
    shared = {"Service", "ConfigMap"}  # `railhead-heads` and the driver: those of all jobs, by the operator's settings
    for child in build_children("labelled", {"spec.childMetadata": DEMANDED}):
        answer = create(strict, child)
        if answer.status != 201:
            assert child["kind"] in shared and "ownerReferences" not in child["metadata"], answer.message


NO_IDS = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}


@pytest.mark.parametrize(
    "changes", [{"spec.podUser": "Cluster"}, {"spec.podTemplate": {"spec": {"securityContext": NO_IDS}}}], ids=str
)
def test_pods_pass_an_admission_that_refuses_fixed_ids(strict: ApiServer, changes: Object) -> None:
    pods = [each for each in build_children("without-ids", {}) if each["kind"] == "Pod"]
    assert len(pods) == 2
    assert {create(strict, pod).status for pod in pods} == {422}
    for pod in build_children("without-ids", changes):
        if pod["kind"] == "Pod":
            answer = create(strict, pod)
            assert answer.status == 201, answer.message


def test_a_client_side_apply_keeps_the_pods_user(cluster: Cluster, api_server: ApiServer) -> None:
    """It drops nulls, so that they are no way to take the ids away."""
    job = make_job({"metadata.name": "any-user", "spec.podUser": "Cluster", "spec.suspend": True})
    try:
        for _ in range(2):
            cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=json.dumps(job))
        stored = api_server.request("GET", f"{PATH}/any-user").body
        assert stored["spec"]["podUser"] == "Cluster" and stored["metadata"]["generation"] == 1
    finally:
        api_server.request("DELETE", f"{PATH}/any-user")
