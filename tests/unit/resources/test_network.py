"""The Service of all heads, and a job's NetworkPolicy: its own pods of every role and attempt, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api import names
from railhead.planning.children import prerequisites
from railhead.planning.plan import Create
from railhead.resources.base import JobNetworkPolicy, JobRef
from railhead.resources.network import NODE_CACHE, build_dns_peers, build_heads_service, build_network_policy
from tests.unit.builders import UID, make_observed, make_spec, to_job
from tests.unit.resources.test_pod_builder import build, ray

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


PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def test_the_metrics_port_is_open_to_its_peers_if_the_job_has_one() -> None:
    wanted = JobNetworkPolicy(metrics_from=(PROMETHEUS,))
    closed, opened = (build_network_policy(JOB, wanted, has_metrics=has)["spec"]["ingress"] for has in (False, True))
    assert opened == [*closed, {"from": [PROMETHEUS], "ports": [{"port": "metrics", "protocol": "TCP"}]}]
    assert len(closed) == 1 and PROMETHEUS not in closed[0]["from"]
    assert build_network_policy(JOB, JobNetworkPolicy(), has_metrics=True)["spec"]["ingress"] == closed


@pytest.mark.parametrize("port", [None, 9400])
def test_the_name_of_the_metrics_port_is_that_of_a_port_of_the_head_only(port: int | None) -> None:
    spec: dict[str, Any] = {"metrics": {"port": port}} if port else {}
    head, worker = ray(build("head", **spec)), ray(build("worker", **spec))
    assert head.get("ports", []) == ([{"name": "metrics", "containerPort": port}] if port else [])
    assert "ports" not in worker


def test_a_job_with_metrics_gets_the_rule() -> None:
    observed = make_observed(spec=make_spec(metrics={"port": 9400}))
    settings = replace(observed.settings, job_network_policy=JobNetworkPolicy(metrics_from=(PROMETHEUS,)))
    children = prerequisites(to_job(replace(observed, settings=settings)), attempt=1)
    [policy] = [each.build() for each in children if isinstance(each, Create) and each.kind == "NetworkPolicy"]
    assert len(policy["spec"]["ingress"]) == 2


@pytest.mark.parametrize(("address", "block"), [("10.96.0.10", "10.96.0.10/32"), ("fd00::a", "fd00::a/128")])
def test_the_operators_own_dns_servers_are_among_those_of_jobs(address: str, block: str) -> None:
    rule = {"ports": [{"port": 443}]}
    wanted = JobNetworkPolicy(egress=(rule,), dns_to=build_dns_peers([address, address]), dns_ports=(53,))
    _, dns, _, last = build_network_policy(JOB, wanted)["spec"]["egress"]
    assert dns["ports"] == [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    blocks = [peer["ipBlock"]["cidr"] for peer in dns["to"] if "ipBlock" in peer]
    assert blocks == [f"{NODE_CACHE}/32", block]
    assert last == rule


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
