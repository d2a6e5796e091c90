"""A refusal's words tell its cause: the texts of Kubernetes 1.36 and of OpenShift, each with a remedy of its own."""

from __future__ import annotations

import pytest

from railhead.client.explain.causes import choose_cause
from railhead.planning.facts.reasons import REJECTIONS, read_admission_reason

FORBIDDEN = 'pods "digits-0f1e2d-1-head" is forbidden: '
OF_A_POD = [
    ("exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9", "QuotaExceeded"),
    ("failed quota: q: must specify limits.cpu for: ray", "ResourceUnspecified"),
    ("failed quota: q: must specify limits.memory for: proxy; requests.memory for: proxy", "ResourceUnspecified"),
    ("status unknown for quota: q, resources: limits.cpu", "QuotaNotCounted"),
    ("insufficient quota to consume: requests.nvidia.com/gpu", "QuotaMissing"),
    ("insufficient quota to match these scopes: [{PriorityClass In [high]}]", "QuotaMissing"),
    ("[maximum memory usage per Pod is 64Gi, but limit is 80Gi]", "LimitRangeViolated"),
    ("minimum cpu usage per Container is 4, but request is 1", "LimitRangeViolated"),
    ("maximum cpu usage per Container is 4.  No limit is specified", "LimitRangeViolated"),
    (
        "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        "LimitRangeViolated",
    ),
    ("no PriorityClass with name fast was found", "PriorityClassNotFound"),
    ("the integer value of priority (5) must not be provided in pod spec; priority admission", "PodInvalid"),
    ('pod rejected: RuntimeClass "gvisor" not found', "RuntimeClassNotFound"),
    ("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead", "PodInvalid"),
    (
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
        "PlacementForbidden",
    ),
    ("pod node label selector conflicts with its namespace node label selector", "PlacementForbidden"),
    ("pod node label selector labels conflict with its namespace whitelist", "PlacementForbidden"),
    ('error looking up service account a/b: serviceaccount "b" not found', "ServiceAccountNotFound"),
    ("image policy webhook backend denied one or more images: unsigned", "AdmissionDenied"),
    ("unable to create new content in namespace a because it is being terminated", "NamespaceTerminating"),
    (
        "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
        "FinalizersForbidden",
    ),
    ('violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)', "PodSecurityViolated"),
    (
        "unable to validate against any security context constraint: [provider restricted-v2: "
        ".spec.securityContext.fsGroup: Invalid value: []int64{1000}: 1000 is not an allowed group]",
        "SecurityConstraintsViolated",
    ),
    ("ValidatingAdmissionPolicy 'team' with binding 'team' denied request: who pays?", "AdmissionDenied"),
    ("something of a later Kubernetes", ""),
]
WEBHOOK = 'admission webhook "quota.example.com" denied the request: '


@pytest.mark.parametrize(("words", "reason"), OF_A_POD)
def test_each_text_of_the_api_server_has_its_reason(words: str, reason: str) -> None:
    assert read_admission_reason("Pod", FORBIDDEN + words) == reason


@pytest.mark.parametrize("words", [words for words, _ in OF_A_POD])
def test_the_words_of_a_webhook_are_its_own_whatever_they_are(words: str) -> None:
    assert read_admission_reason("Pod", WEBHOOK + words) == "AdmissionDenied"


def test_the_webhook_of_pod_security_is_pod_security() -> None:
    denied = 'admission webhook "pod-security-webhook.kubernetes.io" denied the request: pods "x" is forbidden: '
    assert (
        read_admission_reason("Pod", f'{denied}violates PodSecurity "restricted:latest": no') == "PodSecurityViolated"
    )


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Service", "NetworkPolicy", "Workload", "PodGroup"])
def test_a_quota_of_objects_is_not_one_that_pods_take_turns_for(kind: str) -> None:
    words = 'configmaps "a" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=5, '
    assert read_admission_reason(kind, words) == "ObjectCountExceeded"


def test_a_missing_right_names_the_operator() -> None:
    words = 'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods" in API group "" in a'
    assert read_admission_reason("Pod", words) == "OperatorForbidden"


@pytest.mark.parametrize(
    "words",
    [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097353 vs. 2097152)",
        "Request entity too large: limit is 3145728",
    ],
)
def test_an_object_that_etcd_does_not_take_is_too_large(words: str) -> None:
    """The API server, its client of etcd and etcd itself have limits of their own."""
    assert read_admission_reason("ConfigMap", words) == "ObjectTooLarge"


@pytest.mark.parametrize("reason", sorted(REJECTIONS))
def test_each_rejection_has_its_own_cause_and_remedy(reason: str) -> None:
    mine = choose_cause(reason)
    assert mine.sentence != f"The reason is {reason}."
    others = [choose_cause(other).sentence for other in REJECTIONS if other != reason]
    assert mine.sentence not in others


def test_only_a_foreign_object_is_one_that_somebody_made() -> None:
    about = [reason for reason in REJECTIONS if "who made" in choose_cause(reason).remedy]
    assert about == ["ForeignObject"]
