"""What jobs may use, on a real API server: the chart's admission policy judges jobs, and Pod Security their pods."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tools.helm import resolve_helm

from railhead.api.parsed_spec import parse_spec
from railhead.planning.planner import plan
from tests.api.restricted_jobs import (
    ANYTHING_NAMED,
    CASES,
    NAMING,
    ONLY_TRAINER,
    POD,
    RESTRICTED,
    STRICTEST,
    By,
    Case,
)
from tests.api.server import MERGE_PATCH, Answer, ApiServer
from tests.api.trainjobs import make_job
from tests.chart.chart import Chart, Object
from tests.unit.builders import make_observed
from tests.waiting import wait_until

CHART = Path(__file__).resolve().parents[2] / "charts" / "railhead"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
# Each with the chart's values for jobs, and with what the policy refuses there.
NAMESPACES: dict[str, tuple[Object, set[By]]] = {
    "restricted": (RESTRICTED, {By.POLICY, By.UNLISTED}),
    "only-trainer": (ONLY_TRAINER, {By.POLICY}),
    "strictest": (STRICTEST, {By.POLICY, By.UNLISTED, By.UNLESS_LISTED}),
    "anything-named": (ANYTHING_NAMED, {By.POLICY}),
}
OF_POLICY = [
    *((namespace, case) for namespace in ("restricted", "strictest", "anything-named") for case in CASES),
    *(("only-trainer", case) for case in NAMING),
]
POD_CASES = [case for case in CASES if case.by not in (By.POLICY, By.UNLISTED)]
LEVELS = {"baseline": {By.BASELINE, By.TYPE}, "restricted": {By.BASELINE, By.RESTRICTED, By.TYPE}}
ADVICE = "; change the job, or ask your administrator: the chart's values jobs.* decide what jobs may use"


def path_of(namespace: str, name: str = "") -> str:
    path = f"/apis/railhead.dev/v1alpha1/namespaces/{namespace}/trainjobs"
    return f"{path}/{name}" if name else path


def make(server: ApiServer, path: str, body: Mapping[str, Any], *, user: str = "", **query: str) -> Answer:
    return server.request("POST", path, body, user=user, fieldValidation="Strict", **query)


def job_in(namespace: str, changes: Mapping[str, Any]) -> Object:
    return make_job({**changes, "metadata.namespace": namespace})


@pytest.fixture(scope="session")
def restricted(api_server: ApiServer) -> ApiServer:
    """Makes namespaces with a policy each, and one job from before.

    They stay: a process that came back to this module would find namespaces that are still being terminated.
    """
    chart = Chart(CHART, resolve_helm(lambda text: print(text, file=sys.stderr)))
    for namespace, (jobs, _) in NAMESPACES.items():
        api_server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        old = {"automountServiceAccountToken": True, "serviceAccountName": "admin"}
        answer = make(api_server, path_of(namespace), job_in(namespace, {"metadata.name": "old", POD: old}))
        assert answer.status == 201, answer.message
        rendered = chart.render({"jobs": jobs, "watchNamespaces": [namespace]}, namespace=namespace)
        for kind, plural in PLURALS.items():
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}"
            answer = make(api_server, path, rendered.one(kind))
            assert answer.status == 201, answer.message
    for namespace, (jobs, _) in NAMESPACES.items():
        field = "automountServiceAccountToken" if jobs == ANYTHING_NAMED else "serviceAccountName"
        wait_refused(api_server, namespace, {f"{POD}.{field}": True})
    return api_server


def wait_refused(server: ApiServer, namespace: str, changes: Mapping[str, Any]) -> None:
    """Waits until the policy is in force."""
    job = job_in(namespace, changes)
    wait_until(f"the policy of {namespace}", lambda: ask(server, namespace, job).status == 403)


def ask(server: ApiServer, namespace: str, job: Object, *, user: str = "") -> Answer:
    return make(server, path_of(namespace), job, user=user, dryRun="All")


@pytest.mark.parametrize(("namespace", "case"), OF_POLICY, ids=lambda each: str(each))
def test_the_policy_refuses_what_its_cases_say_and_names_the_field(
    restricted: ApiServer, namespace: str, case: Case
) -> None:
    answer = ask(restricted, namespace, job_in(namespace, case.changes))
    if case.by in NAMESPACES[namespace][1]:
        assert answer.status == 403 and case.refused in answer.message and answer.message.endswith(ADVICE)
    else:
        assert answer.status == 201, answer.message


@pytest.fixture(scope="session")
def secured(api_server: ApiServer) -> ApiServer:
    """Makes a namespace for each level of Pod Security, with the service accounts of the jobs."""
    for level in LEVELS:
        labels = {"pod-security.kubernetes.io/enforce": level}
        body = {"metadata": {"name": f"pods-{level}", "labels": labels}}
        assert make(api_server, "/api/v1/namespaces", body).status == 201
        for account in ("default", "trainer"):
            path = f"/api/v1/namespaces/pods-{level}/serviceaccounts"
            assert make(api_server, path, {"metadata": {"name": account}}).status in (201, 409)
    return api_server


def build_pods(case: Case, namespace: str) -> list[Object]:
    """Returns the pods that the operator creates for the job."""
    spec = parse_spec(make_job(case.changes)["spec"])
    creates = plan(make_observed(spec=spec, namespace=namespace)).creates
    return [dict(create.build()) for create in creates if create.kind == "Pod"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", POD_CASES, ids=str)
def test_pod_security_refuses_the_pods_that_the_policy_leaves_to_it(secured: ApiServer, level: str, case: Case) -> None:
    namespace = f"pods-{level}"
    path = f"/api/v1/namespaces/{namespace}/pods"
    answers = [secured.request("POST", path, pod, dryRun="All") for pod in build_pods(case, namespace)]
    assert len(answers) == 2
    if case.by not in LEVELS[level]:
        assert {answer.status for answer in answers} == {201}, [answer.message for answer in answers]
        return
    refused = [answer for answer in answers if answer.status != 201]
    assert refused and all(case.refused in answer.message for answer in refused), [a.message for a in answers]
    by_pod_security = {f'violates PodSecurity "{level}:latest"' in answer.message for answer in refused}
    assert by_pod_security == {case.by is not By.TYPE}, [answer.message for answer in refused]


@pytest.fixture(scope="session")
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
    for field, value in (
        ("serviceAccountName", "admin"),
        ("automountServiceAccountToken", True),
        ("imagePullSecrets", [{"name": "root"}]),
    ):
        answer = ask(restricted, "restricted", job_in("restricted", {f"{POD}.{field}": value}), user=alice)
        assert answer.status == 403 and field in answer.message


def test_a_job_cannot_become_one_that_is_not_allowed(restricted: ApiServer, alice: str) -> None:
    """The API server compares no fields that the CRD does not list: it takes this change for none."""
    job = job_in("restricted", {"metadata.name": "changing", f"{POD}.nodeSelector": {"a": "b"}, "spec.suspend": True})
    assert make(restricted, path_of("restricted"), job, user=alice).status == 201
    swap = {"spec": {"podTemplate": {"spec": {"nodeSelector": None, "serviceAccountName": "admin"}}}}
    path = path_of("restricted", "changing")
    answer = restricted.request("PATCH", path, swap, content_type=MERGE_PATCH, user=alice)
    assert answer.status == 403 and "podTemplate.spec.serviceAccountName must be one of" in answer.message


@pytest.mark.parametrize("resumes", [False, True])
def test_a_change_of_a_suspended_job_is_judged_as_at_creation(restricted: ApiServer, alice: str, resumes: bool) -> None:
    name = f"suspended-{resumes}".lower()
    job = job_in("restricted", {"metadata.name": name, "spec.suspend": True})
    assert make(restricted, path_of("restricted"), job, user=alice).status == 201
    path, status = path_of("restricted", name), {"status": {"phase": "Suspended"}}
    assert restricted.request("PATCH", f"{path}/status", status, content_type=MERGE_PATCH).status == 200
    for spec, field in (
        ({"podTemplate": {"spec": {"serviceAccountName": "admin"}}}, "serviceAccountName must be one of"),
        ({"worker": {"podTemplate": {"spec": {"automountServiceAccountToken": True}}}}, "automountServiceAccountToken"),
        ({"imagePullSecrets": [{"name": "root"}]}, "imagePullSecrets[].name must be"),
        ({"envFrom": [{"secretRef": {"name": "root"}}]}, "envFrom[].secretRef.name must be"),
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
