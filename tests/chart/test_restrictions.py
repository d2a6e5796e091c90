"""What jobs may use: the admission policy, and what the operator needs to notice that it is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.chart.chart import Chart, Object, Rendered

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
RESTRICT = {"restrictPodTemplate": True}


def read_names(rendered: Rendered) -> Object:
    """Returns the policy's variables that come from values."""
    given = {v["name"]: v["expression"] for v in rendered.one(POLICY)["spec"]["variables"][:3]}
    return {name: json.loads(expression) for name, expression in given.items()}


def read_rights(rendered: Rendered) -> list[Object]:
    """Returns the operator's rules for admission policies."""
    rules = [rule for role in rendered.of("ClusterRole") for rule in role["rules"]]
    return [rule for rule in rules if rule.get("apiGroups") == ["admissionregistration.k8s.io"]]


def test_by_default_nothing_is_restricted(chart: Chart) -> None:
    rendered = chart.render()
    assert rendered.of(POLICY) == rendered.of(BINDING) == read_rights(rendered) == []
    assert not any(arg.startswith("--admission-policy") for arg in rendered.container["args"])


@pytest.mark.parametrize(
    ("jobs", "names", "messages"),
    [
        (RESTRICT, {"serviceAccounts": ["default"], "secrets": [], "claims": []}, 13),
        ({"allowedServiceAccounts": ["trainer"]}, {"serviceAccounts": ["trainer"], "secrets": [], "claims": []}, 2),
        (
            {**RESTRICT, "allowedServiceAccounts": ["*"], "allowedSecrets": ["a", "b.c"], "allowedClaims": ["*"]},
            {"serviceAccounts": ["*"], "secrets": ["a", "b.c"], "claims": ["*"]},
            10,
        ),
    ],
    ids=str,
)
def test_the_policy_has_the_names_and_the_rules_of_the_values(
    chart: Chart, jobs: dict[str, Any], names: Object, messages: int
) -> None:
    rendered = chart.render({"jobs": jobs})
    assert read_names(rendered) == names
    policy, binding = rendered.one(POLICY), rendered.one(BINDING)
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert len({rule["message"] for rule in policy["spec"]["validations"]}) == messages
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


@pytest.mark.parametrize("jobs", [RESTRICT, {"allowedServiceAccounts": ["trainer"]}], ids=str)
@pytest.mark.parametrize("watched", [[], ["a", "b"]], ids=str)
def test_the_operator_may_look_for_the_policy_and_its_binding_only(
    chart: Chart, jobs: dict[str, Any], watched: list[str]
) -> None:
    rendered = chart.render({"jobs": jobs, "watchNamespaces": watched})
    name = rendered.one(POLICY)["metadata"]["name"]
    assert rendered.one(BINDING)["metadata"]["name"] == name
    assert f"--admission-policy={name}" in rendered.container["args"]
    [rule] = read_rights(rendered)
    assert rule["resources"] == ["validatingadmissionpolicies", "validatingadmissionpolicybindings"]
    assert (rule["verbs"], rule["resourceNames"]) == (["get"], [name])


def test_it_holds_where_the_operator_runs_jobs(chart: Chart) -> None:
    everywhere = chart.render({"jobs": RESTRICT}).one(POLICY)["spec"]["matchConstraints"]
    watched = chart.render({"jobs": RESTRICT, "watchNamespaces": ["a", "b"]}).one(POLICY)["spec"]["matchConstraints"]
    [rule] = everywhere["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE", "UPDATE"], ["trainjobs"])
    assert "namespaceSelector" not in everywhere
    [where] = watched["namespaceSelector"]["matchExpressions"]
    assert where == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
