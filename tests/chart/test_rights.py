"""The operator's roles: cluster-wide, or in the watched namespaces only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from railhead.kube.kinds import CHILDREN, POD_GROUP
from railhead.planning.plan import INPUT, NETWORK_POLICY, POD, SOURCE
from railhead.resources.gangs.schedulers import SCHEDULERS
from tests.chart.chart import NAMESPACE, Chart


def _on_children(verb: str) -> set[tuple[str, str, str, str]]:
    """The permission for this verb on each kind of child that the TrainJob may own."""
    kinds = {CHILDREN[policy.kind] for policy in (POD, INPUT, SOURCE, NETWORK_POLICY)}
    groups = {group.api_version.partition("/")[0] for each in SCHEDULERS.values() for group in each.pod_groups}
    return {
        *(("", verb, kind.group, kind.plural) for kind in kinds),
        *(("", verb, group, POD_GROUP.plural) for group in groups),
    }


ON_JOBS = {
    *(("", verb, "railhead.dev", "trainjobs") for verb in ("get", "list", "watch", "delete")),
    ("", "patch", "railhead.dev", "trainjobs/status"),
    ("", "update", "railhead.dev", "trainjobs/finalizers"),
    *(("", verb, "", "pods") for verb in ("get", "list", "watch")),
    *_on_children("create"),
    *_on_children("get"),
    *_on_children("delete"),  # also policies created while they were enabled
    ("", "create", "", "secrets"),
    *(("", verb, "", "services") for verb in ("create", "get")),
    *(("", verb, "", "events") for verb in ("create", "get", "list", "patch")),
}
OWN = {
    *((NAMESPACE, verb, "", "secrets") for verb in ("get", "patch")),
    *((NAMESPACE, verb, "coordination.k8s.io", "leases") for verb in ("create", "get", "patch")),
}
IN_THE_CLUSTER = {("", "create", "authentication.k8s.io", "tokenreviews")}


def test_cluster_wide_permissions_by_default(chart: Chart) -> None:
    rendered = chart.render()
    assert rendered.grants("ClusterRole") == ON_JOBS | IN_THE_CLUSTER
    assert rendered.grants("Role") == OWN
    alone = chart.render({"leaderElection": {"enabled": False}})
    assert alone.grants("Role") == {right for right in OWN if right[3] != "leases"}


def test_watched_namespaces_have_roles_instead(chart: Chart) -> None:
    rendered = chart.render({"watchNamespaces": ["a", "b"]})
    assert rendered.grants("ClusterRole") == IN_THE_CLUSTER
    on_jobs = {(n, *right) for n in "ab" for _, *right in ON_JOBS}
    assert rendered.grants("Role") == on_jobs | OWN | {(NAMESPACE, "create", "", "secrets")}


def test_metrics_with_authentication_need_an_extra_permission(chart: Chart) -> None:
    rendered = chart.render({"metrics": {"authentication": True}})
    right = ("", "create", "authorization.k8s.io", "subjectaccessreviews")
    assert rendered.grants("ClusterRole") == ON_JOBS | IN_THE_CLUSTER | {right}
    reader = rendered.one("ClusterRole", "railhead-operator-metrics-reader")
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    bound = {binding["roleRef"]["name"] for binding in rendered.of("ClusterRoleBinding")}
    assert reader["metadata"]["name"] not in bound, "the operator itself need not read them"


def test_with_kueue_the_operator_may_use_workloads_and_read_what_they_name(chart: Chart) -> None:
    group = "kueue.x-k8s.io"
    on_jobs = {
        *((verb, group, "workloads") for verb in ("get", "list", "watch", "create", "patch", "delete")),
        ("patch", group, "workloads/status"),
    }
    shared = {
        ("", verb, group, kind) for verb in ("list", "watch") for kind in ("resourceflavors", "workloadpriorityclasses")
    }
    rendered = chart.render({"queue": {"kueue": {"enabled": True}}})
    assert "--kueue" in rendered.container["args"] and "--kueue" not in chart.render().container["args"]
    assert rendered.grants("ClusterRole") == ON_JOBS | IN_THE_CLUSTER | {("", *right) for right in on_jobs} | shared
    some = chart.render({"queue": {"kueue": {"enabled": True}}, "watchNamespaces": ["a"]})
    assert some.grants("ClusterRole") == IN_THE_CLUSTER | shared
    assert {("a", *right) for right in on_jobs} <= some.grants("Role")


def test_without_network_policies_of_jobs_one_right_less(chart: Chart) -> None:
    right = ("create", "networking.k8s.io", "networkpolicies")
    off = {"jobNetworkPolicy": {"enabled": False}}
    disabled = chart.render(off)
    assert disabled.grants("ClusterRole") == (ON_JOBS - {("", *right)}) | IN_THE_CLUSTER
    assert "--no-job-network-policies" in disabled.container["args"]
    assert ("a", *right) not in chart.render({**off, "watchNamespaces": ["a"]}).grants("Role")


@pytest.mark.parametrize("some", [{"watchNamespaces": ["a"]}, {"jobSelector": "team=a"}], ids=json.dumps)
def test_two_releases_for_some_jobs_do_not_collide(chart: Chart, some: dict[str, Any]) -> None:
    """Even if both have the same name."""
    values = {
        **some,
        "rbac": {"aggregate": False},
        "flowSchema": {"enabled": True},
        "metrics": {"authentication": True},
    }
    names = [
        {
            (o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"])
            for o in chart.render(values, namespace=namespace).objects
            if o["metadata"].get("namespace") != "a"
        }
        for namespace in ("team-a", "team-b")
    ]
    assert len(names[0]) >= 9
    assert not names[0] & names[1]


def test_the_operator_reads_only_one_secret(chart: Chart) -> None:
    for values in ({}, {"watchNamespaces": ["a"]}):
        for role in (*chart.render(values).of("Role"), *chart.render(values).of("ClusterRole")):
            for rule in role["rules"]:
                assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
                if "secrets" in rule["resources"] and not set(rule["verbs"]) <= {"create"}:
                    assert rule["resourceNames"] == ["railhead-report-tls"]


def test_users_get_trainjobs_through_the_aggregated_cluster_roles(chart: Chart) -> None:
    rendered = chart.render()
    to = "rbac.authorization.k8s.io/aggregate-to-"
    roles = {}
    for name in ("view", "edit"):
        role = rendered.one("ClusterRole", f"railhead-{name}")
        roles[name] = {label.removeprefix(to) for label in role["metadata"]["labels"] if label.startswith(to)}
        assert all(rule["apiGroups"] == ["railhead.dev"] for rule in role["rules"])
    assert roles == {"view": {"view"}, "edit": {"edit", "admin"}}  # both include view
    verbs = {verb for rule in rendered.one("ClusterRole", "railhead-view")["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


def test_roles_can_be_disabled(chart: Chart) -> None:
    rendered = chart.render({"rbac": {"create": False}, "watchNamespaces": ["a"]})
    assert not any(rendered.of(kind) for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"))
    alone = chart.render({"rbac": {"aggregate": False}})
    assert [r["metadata"]["name"] for r in alone.of("ClusterRole")] == ["railhead-operator"]
