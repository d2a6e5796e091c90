"""Pods that a real API server rejects or a kubelet cannot start: reported at once, and only until they start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from railhead.api import names
from railhead.planning.facts.deadlines import HOLD_SECONDS
from tests.api.server import MERGE_PATCH
from tests.operator.audit import AuditLog
from tests.operator.cluster import Cluster, Object
from tests.operator.webhook import TEXT, Webhook, serve_webhook
from tests.waiting import wait_until


def reconciling(cluster: Cluster, job: str) -> tuple[str, str]:
    """Reason and message; empty without the condition."""
    found = [c for c in cluster.status(job).get("conditions") or [] if c["type"] == "Reconciling"]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


def wait_reason(cluster: Cluster, job: str, reason: str, *, seconds: float = 60) -> str:
    wait_until(f"{job} {reason}", lambda: reconciling(cluster, job)[0] == reason, seconds=seconds)
    return reconciling(cluster, job)[1]


def make(cluster: Cluster, kind: str, plural: str, name: str, **body: Any) -> str:
    """Returns its path."""
    path = f"/api/v1/namespaces/{cluster.namespace}/{plural}"
    answer = cluster.server.request(
        "POST", path, {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **body}
    )
    assert answer.status == 201, answer.message
    return f"{path}/{name}"


def make_quota(cluster: Cluster, pods: int, *, used: int = 0) -> str:
    """For this many pods, of which other pods than the job's use some."""
    for number in range(used):
        container = {"name": "guest", "image": "guest"}
        make(cluster, "Pod", "pods", f"guest-{number}", spec={"containers": [container]})
    path = make(cluster, "ResourceQuota", "resourcequotas", "few", spec={"hard": {"pods": str(pods)}})
    counted = {"pods": str(used)}
    wait_until("the quota counts", lambda: cluster.server.request("GET", path).body["status"].get("used") == counted)
    return path


def raise_quota(cluster: Cluster, path: str, pods: int) -> None:
    answer = cluster.server.request("PATCH", path, {"spec": {"hard": {"pods": str(pods)}}}, content_type=MERGE_PATCH)
    assert answer.status == 200, answer.message


def test_a_quota_is_reported_at_once_with_the_pod_and_the_servers_message(cluster: Cluster, audit: AuditLog) -> None:
    quota = make_quota(cluster, 3, used=1)
    began = time.monotonic()
    uid = cluster.apply("tight", workers=2)["metadata"]["uid"]
    message = wait_reason(cluster, "tight", "QuotaExceeded", seconds=30)
    assert names.head_name("tight", uid, 1).removesuffix("-1-head") in message
    assert " was rejected: " in message and "exceeded quota: few, requested: pods=1" in message
    running = [c for c in cluster.status("tight")["conditions"] if c["type"] == "Running"]
    assert [(c["status"], c["reason"]) for c in running] == [("False", "QuotaExceeded")]
    assert len(cluster.pods("tight")) == 2
    raise_quota(cluster, quota, 9)
    cluster.wait_pods("tight", 3)
    assert wait_reason(cluster, "tight", "Pending")
    assert "restarts" not in cluster.status("tight") and cluster.status("tight")["attempt"] == 1
    refused = [r for r in audit.requests(cluster.namespace) if (r.verb, r.resource, r.code) == ("create", "pods", 403)]
    assert 1 <= len(refused) <= 2 + (time.monotonic() - began) / 5, "retried with backoff"
    events = [event for event in cluster.events("tight") if event["reason"] == "QuotaExceeded"]
    assert events and {event["type"] for event in events} == {"Warning"}


def test_a_job_that_no_quota_fits_holds_no_pods_and_says_what_to_do(cluster: Cluster) -> None:
    quota = make_quota(cluster, 2)
    cluster.apply("huge", workers=2)
    failure = wait_until("the failure", lambda: cluster.status("huge").get("failure"))
    wait_until("all are released", lambda: not cluster.pods("huge"))
    assert (failure["class"], failure["reason"]) == ("Startup", "ExceedsQuota")
    assert "150 % of quota few; raise the quota, or suspend the job" in failure["message"]
    raise_quota(cluster, quota, 3)
    cluster.wait_pods("huge", 3)


def test_a_job_that_no_quota_of_gpus_fits_makes_pods_only_once(cluster: Cluster, audit: AuditLog) -> None:
    """From then on a dry run asks for the whole job, which no quota counts."""
    gpus = "requests.nvidia.com/gpu"
    quota = make(cluster, "ResourceQuota", "resourcequotas", "gpus", spec={"hard": {gpus: "1"}})
    wait_until(
        "the quota counts", lambda: cluster.server.request("GET", quota).body["status"].get("used") == {gpus: "0"}
    )
    cluster.apply("huge", scaling={"numWorkers": 2, "workersPerPod": 1, "useGPU": True})
    message = wait_reason(cluster, "huge", "ExceedsQuota", seconds=60)
    assert "requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=0" in message
    assert "the job needs 200 % of quota gpus" in message
    assert cluster.status("huge")["attempt"] == 2 and not cluster.pods("huge")
    made = [r for r in audit.requests(cluster.namespace) if (r.verb, r.resource, r.code) == ("create", "pods", 201)]
    assert len(made) <= 2, "a head and one worker of the first attempt"
    cluster.server.request("PATCH", quota, {"spec": {"hard": {gpus: "2"}}}, content_type=MERGE_PATCH)
    cluster.wait_pods("huge", 3, seconds=60)


def no_account(cluster: Cluster) -> Object:
    return {"podTemplate": {"spec": {"serviceAccountName": "trainer"}}}


def no_valid_pod(cluster: Cluster) -> Object:
    return {"podTemplate": {"spec": {"dnsPolicy": "Sometimes"}}}


def misspelled(cluster: Cluster) -> Object:
    container = {"name": "ray", "resorces": {"limits": {"cpu": "1"}}}
    return {"podTemplate": {"spec": {"containers": [container]}}}


def not_restricted(cluster: Cluster) -> Object:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.server.request("PATCH", f"/api/v1/namespaces/{cluster.namespace}", label, content_type=MERGE_PATCH)
    return {"podTemplate": {"spec": {"hostNetwork": True}}}


def count_limits(cluster: Cluster) -> Object:
    make(cluster, "ResourceQuota", "resourcequotas", "limits", spec={"hard": {"limits.cpu": "100"}})
    return {}


def count_objects(cluster: Cluster) -> Object:
    make(cluster, "ResourceQuota", "resourcequotas", "objects", spec={"hard": {"count/configmaps": "0"}})
    return {}


def limit_ratio(cluster: Cluster) -> Object:
    limit = {"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}}
    make(cluster, "LimitRange", "limitranges", "ratio", spec={"limits": [limit]})
    return {}


def limit_pods(cluster: Cluster) -> Object:
    make(cluster, "LimitRange", "limitranges", "most", spec={"limits": [{"type": "Pod", "max": {"memory": "1Gi"}}]})
    return {}


def require_more(cluster: Cluster) -> Object:
    limit = {"type": "Container", "min": {"memory": "64Gi"}}
    make(cluster, "LimitRange", "limitranges", "least", spec={"limits": [limit]})
    return {}


def no_priority(cluster: Cluster) -> Object:
    return {"scheduling": {"priorityClassName": "fast"}}


def no_runtime(cluster: Cluster) -> Object:
    return {"podTemplate": {"spec": {"runtimeClassName": "gvisor"}}}


@pytest.mark.parametrize(
    ("build", "reason", "message"),
    [
        (count_limits, "ResourceUnspecified", "failed quota: limits: must specify limits.cpu for: ray"),
        (count_objects, "ObjectCountExceeded", "exceeded quota: objects, requested: count/configmaps=1"),
        (limit_ratio, "LimitRangeViolated", "cpu max limit to request ratio per Container is 4"),
        (limit_pods, "LimitRangeViolated", "maximum memory usage per Pod is 1Gi"),
        (require_more, "LimitRangeViolated", "minimum memory usage per Container is 64Gi"),
        (no_priority, "PriorityClassNotFound", "no PriorityClass with name fast was found"),
        (no_runtime, "RuntimeClassNotFound", 'pod rejected: RuntimeClass "gvisor" not found'),
        (no_account, "ServiceAccountNotFound", 'serviceaccount "trainer" not found'),
        (no_valid_pod, "PodInvalid", "spec.dnsPolicy: Unsupported value: (hidden): supported values: "),
        (misspelled, "PodInvalid", 'unknown field "spec.containers[0].resorces"'),
        (not_restricted, "PodSecurityViolated", "host namespaces (hostNetwork=true)"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_rejection_by_admission_is_reported_with_its_message(
    cluster: Cluster, build: Any, reason: str, message: str
) -> None:
    cluster.apply("refused", workers=1, **build(cluster))
    assert message in wait_reason(cluster, "refused", reason)
    assert cluster.pods("refused") == {}
    assert "restarts" not in cluster.status("refused")
    if reason == "ServiceAccountNotFound":
        make(cluster, "ServiceAccount", "serviceaccounts", "trainer")
        cluster.wait_pods("refused", 2)


def limit_cpus(cluster: Cluster, default: str) -> str:
    limit = {"type": "Container", "default": {"cpu": default}, "defaultRequest": {"cpu": "100m"}}
    path = make(cluster, "LimitRange", "limitranges", "defaults", spec={"limits": [limit]})
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    pods = f"/api/v1/namespaces/{cluster.namespace}/pods?dryRun=All"

    def is_active() -> bool:
        body = cluster.server.request("POST", pods, probe).body
        return bool(body["spec"]["containers"][0]["resources"].get("limits"))

    wait_until("the LimitRange is in force", is_active)
    return path


def test_a_cpu_limit_of_a_limit_range_is_shown_with_what_to_do(cluster: Cluster) -> None:
    limit_cpus(cluster, "7")
    cluster.apply("throttled", workers=1)
    pods = cluster.wait_pods("throttled", 2)
    assert {pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] for pod in pods.values()} == {"7"}
    wait_until("it is an event", lambda: any(e["reason"] == "CPULimitAdded" for e in cluster.events("throttled")))
    [found] = [c for c in cluster.status("throttled")["conditions"] if c["type"] == "CPULimited"]
    assert "7 on container ray of head pods, 7 on container ray of worker pods" in found["message"]
    assert f"LimitRange in namespace {cluster.namespace}" in found["message"]


def test_a_cpu_limit_below_the_request_is_reported_in_the_servers_words(cluster: Cluster) -> None:
    limits = limit_cpus(cluster, "500m")
    cluster.apply("limited", workers=1)
    message = wait_reason(cluster, "limited", "PodInvalid")
    assert "must be less than or equal to cpu limit of 500m" in message and cluster.pods("limited") == {}
    cluster.server.request("DELETE", limits)
    cluster.wait_pods("limited", 2, seconds=90)  # the API server may keep what it looked up live for 30 s
    assert "restarts" not in cluster.status("limited")


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MATCHED = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def here(cluster: Cluster) -> Object:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}}


def policy(cluster: Cluster) -> dict[str, Object]:
    """Rejects pods without the label team."""
    rule = {"expression": "'team' in object.metadata.labels", "message": "label team is missing: who pays?"}
    constraints = {**here(cluster), "resourceRules": [MATCHED]}
    spec = {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": [rule]}
    return {
        "validatingadmissionpolicies": {"kind": "ValidatingAdmissionPolicy", "spec": spec},
        "validatingadmissionpolicybindings": {
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": cluster.namespace, "validationActions": ["Deny"]},
        },
    }


def protection(cluster: Cluster) -> dict[str, Object]:
    """Nobody may delete a worker pod."""
    rule = {"expression": f"oldObject.metadata.labels[?'{names.LABEL_ROLE}'].orValue('') != '{names.WORKER}'"}
    matched = {**MATCHED, "operations": ["DELETE"]}
    spec = {
        "matchConstraints": {**here(cluster), "resourceRules": [matched]},
        "validations": [{**rule, "message": "workers are protected"}],
    }
    body = {"kind": "ValidatingAdmissionPolicy", "spec": {"failurePolicy": "Fail", **spec}}
    return {**policy(cluster), "validatingadmissionpolicies": body}


def webhook_that_is_away(cluster: Cluster) -> dict[str, Object]:
    hook = {
        "name": "pods.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/admit"},
        "rules": [MATCHED],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **here(cluster),
    }
    return {"validatingwebhookconfigurations": {"kind": "ValidatingWebhookConfiguration", "webhooks": [hook]}}


@contextmanager
def admission(
    cluster: Cluster, objects: dict[str, Object], *, is_active: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Cluster-scoped, but for one namespace only; waits until it is in force: by default, until it refuses a pod."""
    paths = []
    try:
        for plural, body in objects.items():
            full = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": cluster.namespace}, **body}
            answer = cluster.server.request("POST", f"{ADMISSION}/{plural}", full)
            assert answer.status == 201, answer.message
            paths.append(f"{ADMISSION}/{plural}/{cluster.namespace}")
        probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
        pods = f"/api/v1/namespaces/{cluster.namespace}/pods?dryRun=All"
        refuses = is_active or (lambda: cluster.server.request("POST", pods, probe).status >= 400)
        wait_until("it looks at pods", refuses, seconds=60)
        yield
    finally:
        for path in paths:
            cluster.server.request("DELETE", path)


@pytest.mark.parametrize(
    ("build", "reason", "message"),
    [
        (policy, "AdmissionDenied", "denied request: label team is missing: who pays?"),
        (webhook_that_is_away, "AdmissionWebhookFailed", 'failed calling webhook "pods.example.com"'),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_rejection_by_a_policy_or_webhook_is_reported_with_its_message_until_it_ends(
    cluster: Cluster, build: Any, reason: str, message: str
) -> None:
    with admission(cluster, build(cluster)):
        cluster.apply("refused", workers=1)
        assert message in wait_reason(cluster, "refused", reason)
        assert cluster.pods("refused") == {}
    cluster.wait_pods("refused", 2)
    assert "restarts" not in cluster.status("refused")


CODES = (400, 404, 409, 422, 429, 500, 503)


def guard(cluster: Cluster, webhook: Webhook, operation: str) -> dict[str, Object]:
    """Asks the webhook about worker pods."""
    hook = {
        "name": "guard.example.com",
        "clientConfig": {"url": webhook.url, "caBundle": webhook.ca_bundle},
        "rules": [{**MATCHED, "operations": [operation]}],
        "objectSelector": {"matchLabels": {names.LABEL_ROLE: names.WORKER}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **here(cluster),
    }
    return {"validatingwebhookconfigurations": {"kind": "ValidatingWebhookConfiguration", "webhooks": [hook]}}


def test_a_webhook_that_denies_pods_with_any_code_is_reported_in_its_words(cluster: Cluster, tmp_path: Path) -> None:
    label = {"metadata": {"name": "probe", "labels": {names.LABEL_ROLE: names.WORKER}}}
    probe = {**label, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    pods = f"/api/v1/namespaces/{cluster.namespace}/pods?dryRun=All"
    with serve_webhook(tmp_path) as webhook:

        def refuses() -> bool:
            return cluster.server.request("POST", pods, probe).status == webhook.code

        with admission(cluster, guard(cluster, webhook, "CREATE"), is_active=refuses):
            for code in CODES:
                webhook.code = code
                cluster.apply(f"refused-{code}", workers=1)
                assert f"denied the request: {TEXT}" in wait_reason(cluster, f"refused-{code}", "AdmissionDenied")
        for code in CODES:
            cluster.wait_pods(f"refused-{code}", 2)


def test_a_webhook_that_denies_deletes_with_any_code_is_reported_and_keeps_no_head(
    cluster: Cluster, tmp_path: Path
) -> None:
    for code in CODES:
        cluster.apply(f"kept-{code}", workers=1)
        cluster.wait_pods(f"kept-{code}", 2)
    [worker] = [name for name in cluster.pods("kept-500") if "-w0-" in name]
    probe = f"/api/v1/namespaces/{cluster.namespace}/pods/{worker}?dryRun=All"
    with serve_webhook(tmp_path) as webhook:

        def refuses() -> bool:
            return cluster.server.request("DELETE", probe).status == webhook.code

        def find_left(job: str) -> tuple[list[str], list[str]]:
            told = [c["message"] for c in cluster.status(job)["conditions"] if c["type"] == "DeleteDenied"]
            return sorted(name[-4:] for name in cluster.pods(job)), [each for each in told if TEXT in each]

        def is_told(job: str) -> bool:
            return bool(find_left(job)[1])

        with admission(cluster, guard(cluster, webhook, "DELETE"), is_active=refuses):
            for code in CODES:
                webhook.code = code
                cluster.change(f"kept-{code}", suspend=True)
                wait_until(f"code {code} is told", partial(is_told, f"kept-{code}"))
                assert find_left(f"kept-{code}")[0] == ["w0-0"]
        for code in CODES:
            cluster.wait_phase(f"kept-{code}", "Suspended")


def run_all(cluster: Cluster, job: str, pods: dict[str, Object]) -> None:
    """Runs all pods; the condition then reports no problem."""
    for pod in pods.values():
        cluster.run_pod(pod)
    cluster.wait_phase(job, "Starting")
    assert reconciling(cluster, job)[0] == "Starting"


def test_a_missing_secret_is_reported_with_the_kubelets_message(cluster: Cluster) -> None:
    cluster.apply("nosecret", workers=1, envFrom=[{"secretRef": {"name": "keys"}}])
    pods = cluster.wait_pods("nosecret", 2)
    head = cluster.head("nosecret")
    cluster.hold_pod(head, "CreateContainerConfigError", 'secret "keys" not found')
    message = wait_reason(cluster, "nosecret", "CreateContainerConfigError")
    assert message == f'Pod {head["metadata"]["name"]} cannot start: container ray: secret "keys" not found'
    run_all(cluster, "nosecret", pods)


@pytest.mark.slow  # tests/model/test_explanations.py has it too; the operator asks for events rarely
def test_a_missing_volume_is_reported_with_the_message_of_the_pods_events(cluster: Cluster) -> None:
    cluster.apply("novolume", workers=1)
    pods = cluster.wait_pods("novolume", 2)
    head = cluster.head("novolume")
    cluster.bind_pod(head)
    event = 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found'
    cluster.say_of_pod(head, "FailedMount", event)
    message = wait_reason(cluster, "novolume", "FailedMount")
    assert message == f"Pod {head['metadata']['name']} cannot start: {event}"
    run_all(cluster, "novolume", pods)


@pytest.mark.slow  # gates are reported after 15 s, in real time
def test_pods_with_scheduling_gates_wait_until_these_are_removed(cluster: Cluster) -> None:
    cluster.apply("gated", workers=1, podTemplate={"spec": {"schedulingGates": [{"name": "queue.test/admission"}]}})
    pods = cluster.wait_pods("gated", 2)
    message = wait_reason(cluster, "gated", "SchedulingGated")
    assert "scheduling gates (queue.test/admission), which the controller that set them removes" in message
    for pod in pods.values():
        cluster.remove_gates(pod)
    run_all(cluster, "gated", pods)


@pytest.mark.slow  # the hold time of 30 s, in real time
def test_half_an_attempt_is_released_and_retried_when_there_is_quota(cluster: Cluster) -> None:
    quota = make_quota(cluster, 3, used=1)
    cluster.apply("half", workers=2)
    cluster.wait_pods("half", 2)
    for pod in cluster.pods("half").values():
        cluster.run_pod(pod)
    wait_until("all are released", lambda: not cluster.pods("half"), seconds=HOLD_SECONDS + 10)
    failure = cluster.status("half")["failure"]
    assert (failure["class"], failure["reason"]) == ("Startup", "QuotaExceeded")
    raise_quota(cluster, quota, 9)
    cluster.wait_pods("half", 3)
    status = cluster.status("half")
    assert status["attempt"] == 2 and not any((status.get("restarts") or {}).values())
