"""What jobs may use: the admission policy and the operator's flags come from the same values."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from railhead.api.restrictions import UNRESTRICTED, Restrictions
from railhead.cli import operator
from tests.chart.chart import Chart, Rendered

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
RESTRICT = {"restrictPodTemplate": True}


def read_flags(rendered: Rendered) -> Restrictions:
    """As the operator reads its arguments."""
    parser = argparse.ArgumentParser()
    operator.add_arguments(parser)
    return operator.read_restrictions(parser.parse_args(rendered.container["args"][1:]))


def read_policy(rendered: Rendered) -> Restrictions:
    """As the API server reads the variables of the policy that come from values."""
    given = {v["name"]: v["expression"] for v in rendered.one(POLICY)["spec"]["variables"][:4]}
    found = {name: json.loads(expression) for name, expression in given.items()}
    accounts, secrets, claims = (tuple(found[name]) for name in ("serviceAccounts", "secrets", "claims"))
    return Restrictions(found["isRestricted"], accounts, secrets, claims)


def test_by_default_nothing_is_restricted(chart: Chart) -> None:
    rendered = chart.render()
    assert rendered.of(POLICY) == rendered.of(BINDING) == []
    assert read_flags(rendered) == UNRESTRICTED


@pytest.mark.parametrize(
    ("jobs", "restrictions"),
    [
        (RESTRICT, Restrictions(True, ("default",))),
        ({"allowedServiceAccounts": ["trainer"]}, Restrictions(False, ("trainer",))),
        (
            {**RESTRICT, "allowedServiceAccounts": ["*"], "allowedSecrets": ["a", "b.c"], "allowedClaims": ["*"]},
            Restrictions(True, ("*",), ("a", "b.c"), ("*",)),
        ),
    ],
    ids=str,
)
def test_the_policy_and_the_operator_have_the_same_restrictions(
    chart: Chart, jobs: dict[str, Any], restrictions: Restrictions
) -> None:
    rendered = chart.render({"jobs": jobs})
    assert read_policy(rendered) == read_flags(rendered) == restrictions
    policy, binding = rendered.one(POLICY), rendered.one(BINDING)
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_it_holds_where_the_operator_runs_jobs(chart: Chart) -> None:
    everywhere = chart.render({"jobs": RESTRICT}).one(POLICY)["spec"]["matchConstraints"]
    watched = chart.render({"jobs": RESTRICT, "watchNamespaces": ["a", "b"]}).one(POLICY)["spec"]["matchConstraints"]
    [rule] = everywhere["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE", "UPDATE"], ["trainjobs"])
    assert "namespaceSelector" not in everywhere
    [where] = watched["namespaceSelector"]["matchExpressions"]
    assert where == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}


def test_flags_without_effect_end_the_operator(chart: Chart) -> None:
    rendered = chart.render({"extraArgs": ["--allowed-secret=keys"]})
    with pytest.raises(SystemExit, match="--allowed-secret and --allowed-claim need --restrict-pod-template"):
        read_flags(rendered)
