"""The Service of all heads, and a job's NetworkPolicy: its own pods of every role and attempt, and no others."""

from __future__ import annotations

from dataclasses import replace

from railhead.api import names
from railhead.planning.children import prerequisites
from railhead.resources.base import JobNetworkPolicy, JobRef
from railhead.resources.network import build_heads_service, build_network_policy
from tests.unit.builders import UID, make_observed, to_job
from tests.unit.resources.test_pods import build

JOB = JobRef("team", "digits", UID)
OTHER = JobRef("team", "digits", "ffffffff-2222-4333-8444-555555555555")


def selects(policy: dict[str, object], labels: dict[str, str]) -> bool:
    selector = policy["matchLabels"]
    assert isinstance(selector, dict)
    return selector.items() <= labels.items()


def test_only_the_jobs_own_pods_reach_each_other() -> None:
    spec = build_network_policy(JOB, JobNetworkPolicy())["spec"]
    [rule] = spec["ingress"]
    [peer] = rule["from"]
    assert "ports" not in rule  # Ray's and torch's vary
    for attempt in (1, 2):
        worker = build("worker", attempt=attempt)
        assert selects(spec["podSelector"], worker["metadata"]["labels"])
        assert selects(peer["podSelector"], worker["metadata"]["labels"])
    other = build("worker", job=OTHER)
    assert not selects(spec["podSelector"], other["metadata"]["labels"])
    assert not selects(peer["podSelector"], other["metadata"]["labels"])


def test_egress_is_not_restricted() -> None:
    assert build_network_policy(JOB, JobNetworkPolicy())["spec"]["policyTypes"] == ["Ingress"]


def test_the_job_owns_it() -> None:
    metadata = build_network_policy(JOB, JobNetworkPolicy())["metadata"]
    assert (metadata["namespace"], metadata["name"]) == ("team", names.network_policy_name("digits", UID))
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("TrainJob", UID)


def test_it_is_created_before_the_pods_if_enabled() -> None:
    observed = make_observed()
    enabled = replace(observed, settings=replace(observed.settings, job_network_policy=JobNetworkPolicy()))
    assert "NetworkPolicy" not in {child.kind for child in prerequisites(to_job(observed), attempt=1)}
    assert [child.kind for child in prerequisites(to_job(enabled), attempt=1)].count("NetworkPolicy") == 1


def test_the_service_selects_the_heads_of_all_jobs_before_they_are_ready() -> None:
    service = build_heads_service("team")
    spec = service["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert "ownerReferences" not in service["metadata"] and service["metadata"]["namespace"] == "team"
    head, other, worker = build("head"), build("head", job=OTHER), build("worker")
    selected = [spec["selector"].items() <= pod["metadata"]["labels"].items() for pod in (head, worker, other)]
    assert selected == [True, False, True]
    assert head["spec"]["subdomain"] == service["metadata"]["name"]
