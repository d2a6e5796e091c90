"""The chart's admission policy on a real API server: the same verdicts as the operator's, also for updates."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tools.helm import resolve_helm

from railhead.api.job import parse_spec
from railhead.api.restrictions import ADVICE, Restrictions, find_refusals
from tests.api.restricted_jobs import ANYTHING_NAMED, CASES, NAMING, ONLY_TRAINER, POD, RESTRICTED, STRICTEST, Case
from tests.api.server import MERGE_PATCH, Answer, ApiServer
from tests.api.trainjobs import make_job
from tests.chart.chart import Chart, Object
from tests.waiting import wait_until

CHART = Path(__file__).resolve().parents[2] / "charts" / "railhead"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
NAMESPACES = {
    "restricted": RESTRICTED,
    "only-trainer": ONLY_TRAINER,
    "strictest": STRICTEST,
    "anything-named": ANYTHING_NAMED,
}
ALL_CASES = [
    *(("restricted", case) for case in CASES),
    *(("only-trainer", case) for case in NAMING),
    *((namespace, case) for namespace in ("strictest", "anything-named") for case in (*CASES, *NAMING)),
]


def values(restrictions: Restrictions) -> Object:
    """Of the chart."""
    accounts = restrictions.service_accounts
    jobs = {"restrictPodTemplate": restrictions.is_restricted, "allowedServiceAccounts": list(accounts)}
    if restrictions == STRICTEST:
        return {"restrictPodTemplate": True}
    return {**jobs, "allowedSecrets": list(restrictions.secrets), "allowedClaims": list(restrictions.claims)}


def path_of(namespace: str, name: str = "") -> str:
    path = f"/apis/railhead.dev/v1alpha1/namespaces/{namespace}/trainjobs"
    return f"{path}/{name}" if name else path


def make(server: ApiServer, path: str, body: Mapping[str, Any], *, user: str = "", **query: str) -> Answer:
    return server.request("POST", path, body, user=user, fieldValidation="Strict", **query)


def job_in(namespace: str, changes: Mapping[str, Any]) -> Object:
    return make_job({**changes, "metadata.namespace": namespace})


@pytest.fixture(scope="module")
def restricted(api_server: ApiServer) -> Iterator[ApiServer]:
    """Namespaces with a policy each, and one job from before."""
    chart = Chart(CHART, resolve_helm(lambda text: print(text, file=sys.stderr)))
    paths = []
    for namespace, restrictions in NAMESPACES.items():
        api_server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        old = job_in(namespace, {"metadata.name": "old", POD: {"hostPID": True, "serviceAccountName": "admin"}})
        assert make(api_server, path_of(namespace), old).status == 201
        rendered = chart.render({"jobs": values(restrictions), "watchNamespaces": [namespace]}, namespace=namespace)
        for kind, plural in PLURALS.items():
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}"
            answer = make(api_server, path, rendered.one(kind))
            assert answer.status == 201, answer.message
            paths.append(f"{path}/{answer.body['metadata']['name']}")
    for namespace, restrictions in NAMESPACES.items():
        field = f"{POD}.hostPID" if restrictions == ANYTHING_NAMED else f"{POD}.serviceAccountName"
        wait_refused(api_server, namespace, {field: True})
    yield api_server
    for path in (*paths, *(f"/api/v1/namespaces/{namespace}" for namespace in NAMESPACES)):
        api_server.request("DELETE", path)


def wait_refused(server: ApiServer, namespace: str, changes: Mapping[str, Any]) -> None:
    """Until the policy is in force."""
    job = job_in(namespace, changes)
    wait_until(f"the policy of {namespace}", lambda: ask(server, namespace, job).status == 403)


def ask(server: ApiServer, namespace: str, job: Object, *, user: str = "") -> Answer:
    return make(server, path_of(namespace), job, user=user, dryRun="All")


@pytest.mark.parametrize(("namespace", "case"), ALL_CASES, ids=lambda each: str(each))
def test_the_api_server_and_the_operator_judge_alike(restricted: ApiServer, namespace: str, case: Case) -> None:
    job = job_in(namespace, case.changes)
    expected = find_refusals(parse_spec(job["spec"]), NAMESPACES[namespace])
    answer = ask(restricted, namespace, job)
    assert answer.status == 201 if not expected else answer.status in (403, 422), answer.message
    if expected and "expected iterable type" not in answer.message:  # where a list belongs; no pod may have that
        assert answer.status == 403
        assert answer.message.endswith(f" denied request: {'; '.join(expected)}{ADVICE}")


@pytest.fixture(scope="module")
def alice(restricted: ApiServer) -> str:
    """A user who may create and change TrainJobs of one namespace, and nothing else."""
    rules = [{"apiGroups": ["railhead.dev"], "resources": ["trainjobs"], "verbs": ["create", "patch"]}]
    metadata, group = {"name": "trainjobs"}, "rbac.authorization.k8s.io"
    path = f"/apis/{group}/v1/namespaces/restricted"
    assert make(restricted, f"{path}/roles", {"metadata": metadata, "rules": rules}).status == 201
    binding = {
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "trainjobs"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    }
    assert make(restricted, f"{path}/rolebindings", binding).status == 201
    wait_until("her role", lambda: ask(restricted, "restricted", job_in("restricted", {}), user="alice").status == 201)
    return "alice"


def test_who_may_only_create_train_jobs_gets_no_more_than_is_allowed(restricted: ApiServer, alice: str) -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    own = restricted.request("POST", "/api/v1/namespaces/restricted/pods", pod, user=alice, dryRun="All")
    assert own.status == 403
    allowed = {f"{POD}.serviceAccountName": "trainer", "spec.envFrom": [{"secretRef": {"name": "keys"}}]}
    assert ask(restricted, "restricted", job_in("restricted", allowed), user=alice).status == 201
    for field, value in (("serviceAccountName", "admin"), ("hostPID", True), ("imagePullSecrets", [{"name": "root"}])):
        answer = ask(restricted, "restricted", job_in("restricted", {f"{POD}.{field}": value}), user=alice)
        assert answer.status == 403 and f"{POD}.{field}" in answer.message


def test_a_job_cannot_become_one_that_is_not_allowed(restricted: ApiServer, alice: str) -> None:
    """The API server compares no fields that the CRD does not list: it takes this change for none."""
    job = job_in("restricted", {"metadata.name": "changing", f"{POD}.nodeSelector": {"a": "b"}, "spec.suspend": True})
    assert make(restricted, path_of("restricted"), job, user=alice).status == 201
    swap = {"spec": {"podTemplate": {"spec": {"nodeSelector": None, "serviceAccountName": "admin"}}}}
    path = path_of("restricted", "changing")
    answer = restricted.request("PATCH", path, swap, content_type=MERGE_PATCH, user=alice)
    assert answer.status == 403 and f"{POD}.serviceAccountName: is none of" in answer.message


@pytest.mark.parametrize("resumes", [False, True])
def test_a_change_of_a_suspended_job_is_judged_as_at_creation(restricted: ApiServer, alice: str, resumes: bool) -> None:
    name = f"suspended-{resumes}".lower()
    job = job_in("restricted", {"metadata.name": name, "spec.suspend": True})
    assert make(restricted, path_of("restricted"), job, user=alice).status == 201
    path, status = path_of("restricted", name), {"status": {"phase": "Suspended"}}
    assert restricted.request("PATCH", f"{path}/status", status, content_type=MERGE_PATCH).status == 200
    for spec, field in (
        ({"podTemplate": {"spec": {"serviceAccountName": "admin"}}}, f"{POD}.serviceAccountName: is none of"),
        ({"worker": {"podTemplate": {"spec": {"hostPID": True}}}}, "spec.worker.podTemplate.spec.hostPID"),
        ({"imagePullSecrets": [{"name": "root"}]}, "spec.imagePullSecrets[].name: is none of"),
        ({"envFrom": [{"secretRef": {"name": "root"}}]}, "spec.envFrom[].secretRef.name: is none of"),
        ({"podTemplate": {"spec": {"serviceAccountName": "trainer"}}, "image": "other:2"}, ""),
    ):
        patch = {"spec": {**spec, "suspend": not resumes}}
        answer = restricted.request("PATCH", path, patch, content_type=MERGE_PATCH, user=alice, dryRun="All")
        assert (answer.status == 403 and field in answer.message) if field else answer.status == 200, answer.message
    restricted.request("DELETE", path)


def test_a_job_from_before_can_be_suspended_labelled_and_deleted(restricted: ApiServer) -> None:
    for namespace in NAMESPACES:
        path = path_of(namespace, "old")
        for patch in (
            {"metadata": {"labels": {"a": "b"}, "finalizers": ["test.example/hold"]}},
            {"spec": {"suspend": True}},
            {"spec": {"suspend": False, "backoffLimit": 1}},
        ):
            answer = restricted.request("PATCH", path, patch, content_type=MERGE_PATCH)
            assert answer.status == 200, answer.message
        assert restricted.request("DELETE", path).status == 200
        released = {"metadata": {"finalizers": None}}
        assert restricted.request("PATCH", path, released, content_type=MERGE_PATCH).status == 200
        assert restricted.request("GET", path).status == 404
