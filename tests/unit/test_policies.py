"""The evaluator of NetworkPolicies, with the cases that Kubernetes' documentation describes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policies import Network, Pod

DB = Pod("default", {"role": "db"}, "10.0.0.2", ports={"sql": 6379})
FRONTEND = Pod("default", {"role": "frontend"}, "10.0.0.3")
OTHER = Pod("default", {"role": "other"}, "10.0.0.4")
PROJECT = Pod("projects", {"role": "frontend"}, "10.0.0.5")
INSIDE = Pod("", ip="172.17.0.9", is_external=True)
EXCEPTED = Pod("", ip="172.17.1.9", is_external=True)
NAMESPACES = {"projects": {"project": "myproject"}}


def make_policy(*, selector: dict[str, Any] | None = None, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace}, "spec": {"podSelector": selector or {}, **spec}}


# "The NetworkPolicy resource": isolates role=db for both directions.
EXAMPLE = make_policy(
    selector={"matchLabels": {"role": "db"}},
    policyTypes=["Ingress", "Egress"],
    ingress=[
        {
            "from": [
                {"ipBlock": {"cidr": "172.17.0.0/16", "except": ["172.17.1.0/24"]}},
                {"namespaceSelector": {"matchLabels": {"project": "myproject"}}},
                {"podSelector": {"matchLabels": {"role": "frontend"}}},
            ],
            "ports": [{"protocol": "TCP", "port": 6379}],
        }
    ],
    egress=[{"to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "ports": [{"protocol": "TCP", "port": 5978}]}],
)


@pytest.mark.parametrize(
    ("source", "target", "port", "is_allowed"),
    [
        (FRONTEND, DB, 6379, True),
        (FRONTEND, DB, 6380, False),
        (PROJECT, DB, 6379, True),
        (OTHER, DB, 6379, False),
        (INSIDE, DB, 6379, True),
        (EXCEPTED, DB, 6379, False),
        (DB, OTHER, 5978, True),
        (DB, OTHER, 5979, False),
        (DB, INSIDE, 5978, False),
        (OTHER, FRONTEND, 1, True),
        (PROJECT, OTHER, 1, True),
    ],
)
def test_the_example_of_the_documentation(source: Pod, target: Pod, port: int, is_allowed: bool) -> None:
    assert Network([EXAMPLE], NAMESPACES).allows(source, target, port) is is_allowed


def allows(policy: dict[str, Any], source: Pod = FRONTEND, port: int = 6379, protocol: str = "TCP") -> bool:
    return Network([policy], NAMESPACES).allows(source, DB, port, protocol)


def test_default_deny_and_allow() -> None:
    assert not allows(make_policy(policyTypes=["Ingress"]))
    assert not allows(make_policy()), "Ingress is the default type"
    assert allows(make_policy(ingress=[{}]))
    assert not allows(make_policy(policyTypes=["Egress"])), "the source is in the same namespace"
    assert allows(make_policy(policyTypes=["Egress"]), PROJECT)
    assert not allows(make_policy(namespace="projects", egress=[{"to": [{"podSelector": {}}]}]), PROJECT)


def test_policies_add_up() -> None:
    deny, allow = make_policy(), make_policy(ingress=[{"from": [{"podSelector": {}}]}])
    assert Network([deny, allow]).allows(FRONTEND, DB, 1)
    assert not Network([deny, allow]).allows(PROJECT, DB, 1)


def test_both_selectors_of_one_peer_must_match_and_either_of_two_peers() -> None:
    namespace = {"namespaceSelector": {"matchLabels": {"project": "myproject"}}}
    pods = {"podSelector": {"matchLabels": {"role": "frontend"}}}
    both, either = ({"from": peers} for peers in ([{**namespace, **pods}], [namespace, pods]))
    assert [allows(make_policy(ingress=[both]), source) for source in (FRONTEND, PROJECT)] == [False, True]
    assert [allows(make_policy(ingress=[either]), source) for source in (FRONTEND, PROJECT)] == [True, True]


@pytest.mark.parametrize(
    ("rule", "port", "protocol", "is_allowed"),
    [
        ({"port": "sql"}, 6379, "TCP", True),
        ({"port": "sql"}, 6380, "TCP", False),
        ({"port": 6000, "endPort": 6400}, 6379, "TCP", True),
        ({"port": 6000, "endPort": 6400}, 6401, "TCP", False),
        ({"port": 6379}, 6379, "UDP", False),
        ({"port": 6379, "protocol": "UDP"}, 6379, "UDP", True),
        ({"protocol": "TCP"}, 1, "TCP", True),
    ],
)
def test_ports(rule: dict[str, Any], port: int, protocol: str, is_allowed: bool) -> None:
    assert allows(make_policy(ingress=[{"ports": [rule]}]), port=port, protocol=protocol) is is_allowed


@pytest.mark.parametrize(
    ("operator", "values", "is_allowed"),
    [
        ("In", ["db"], False),
        ("In", ["x"], True),
        ("NotIn", ["db"], True),
        ("Exists", [], False),
        ("DoesNotExist", [], True),
    ],
)
def test_a_pod_that_expressions_select_is_isolated(operator: str, values: list[str], is_allowed: bool) -> None:
    expression = {"key": "role", "operator": operator, "values": values}
    assert allows(make_policy(selector={"matchExpressions": [expression]})) is is_allowed
