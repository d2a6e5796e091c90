"""The operator's Deployment, Service and ServiceAccount, value by value."""

from __future__ import annotations

import argparse
import re
from typing import Any

import pytest

from railhead.cli import operator
from railhead.controller import probes
from railhead.kube.selector import parse_selector
from tests.chart.chart import NAMESPACE, RELEASES, Chart, Rendered

DIGEST = "sha256:" + "0123456789abcdef" * 4


def flags(rendered: Rendered) -> dict[str, Any]:
    """Flag -> value, as the operator parses its arguments."""
    [first, *rest] = rendered.container["args"]
    assert first == "operator"
    parser = argparse.ArgumentParser()
    operator.add_arguments(parser)
    return vars(parser.parse_args(rest))


def test_the_operator_parses_its_arguments(chart: Chart) -> None:
    found = flags(chart.render())
    assert found["namespace"] == "$(POD_NAMESPACE)"
    assert found["watch_namespace"] == []
    assert (found["job_log_archive"], found["job_log_archive_most"]) == (None, "All")
    assert found["job_selector"] == parse_selector("")
    assert found["report_url"] == "https://railhead-reports.$(POD_NAMESPACE).svc:8443"


def test_arguments_come_from_values(chart: Chart) -> None:
    values = {
        "concurrency": 3,
        "logLevel": "DEBUG",
        "logFormat": "json",
        "watchNamespaces": ["a", NAMESPACE],
        "service": {"port": 443},
    }
    values["jobs"] = {"logArchive": {"default": "None", "most": "Failed"}}
    selector = "team in (a, b),!legacy"
    found = flags(chart.render({**values, "jobSelector": selector}))
    assert found["job_selector"] == parse_selector(selector)
    assert found["concurrency"] == 3
    assert (found["log_level"], found["log_format"]) == ("DEBUG", "json")
    assert (found["job_log_archive"], found["job_log_archive_most"]) == ("None", "Failed")
    assert found["report_writes_per_second"] == 25
    assert flags(chart.render({"replicas": 2}))["report_writes_per_second"] == 12.5, "25 for all replicas together"
    assert flags(chart.render({"replicas": 0}))["report_writes_per_second"] == 25, "an operator that is stopped"
    assert found["watch_namespace"] == ["a", "$(POD_NAMESPACE)"]
    assert found["report_url"].endswith(".svc:443")
    assert flags(chart.render({"extraArgs": ["--log-level=ERROR"]}))["log_level"] == "ERROR"


def test_the_operator_reads_the_metadata_and_the_user_of_what_it_creates(chart: Chart) -> None:
    labels, annotations = {"team": "ml", "app.kubernetes.io/part-of": "x"}, {"app.kubernetes.io/note": 'a "b" <c>'}
    values = {"commonLabels": labels, "commonAnnotations": annotations, "podUser": "Cluster"}
    found = flags(chart.render(values))
    assert (found["common_labels"], found["common_annotations"]) == ({"team": "ml"}, annotations)
    assert found["job_pod_user"] == "Cluster"
    plain = flags(chart.render())
    assert (plain["common_labels"], plain["common_annotations"], plain["job_pod_user"]) == ({}, {}, "Fixed")


@pytest.mark.parametrize(
    "argument",
    [
        "--common-labels=team",
        '--common-labels={"team": 1}',
        '--common-labels={"app.kubernetes.io/name": "x"}',
        '--common-annotations={"railhead.dev/avoided-nodes": "x"}',
        "--job-pod-user=root",
    ],
)
def test_the_operator_refuses_metadata_that_is_its_own_or_no_text(argument: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    operator.add_arguments(parser)
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(["--report-url=x", argument])


def test_leader_election(chart: Chart) -> None:
    rendered = chart.render({"replicas": 3, "leaderElection": {"leaseSeconds": 5}})
    assert flags(rendered)["leader_election"] is True
    assert flags(rendered)["lease_seconds"] == 5
    assert rendered.one("Deployment")["spec"]["replicas"] == 3
    assert flags(rendered)["pod_uid"] == "$(POD_UID)"
    assert {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}} in rendered.container["env"]
    assert "strategy" not in rendered.one("Deployment")["spec"]  # the new pod watches before the old one stops


def test_without_leader_election_two_operators_never_overlap(chart: Chart) -> None:
    rendered = chart.render({"leaderElection": {"enabled": False}})
    assert flags(rendered)["leader_election"] is False
    assert flags(rendered)["pod_uid"] == ""
    assert rendered.one("Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_container_ports_match_the_operators_flags(chart: Chart) -> None:
    rendered = chart.render()
    ports = {p["name"]: str(p["containerPort"]) for p in rendered.container["ports"]}
    found = flags(rendered)
    assert found["report_listen"].rpartition(":")[2] == ports["reports"]
    assert found["probe_listen"].rpartition(":")[2] == ports["probes"]
    assert rendered.one("Service")["spec"]["ports"][0]["targetPort"] == "reports"


def test_the_service_selects_the_pods(chart: Chart) -> None:
    rendered = chart.render({"podLabels": {"team": "ml"}, "commonLabels": {"cost": "42"}})
    labels = rendered.pod["metadata"]["labels"]
    assert rendered.one("Service")["spec"]["selector"].items() <= labels.items()
    assert rendered.one("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert {"team": "ml", "cost": "42"}.items() <= labels.items()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "railhead/operator:0.1.0"),
        ({"tag": "2"}, "railhead/operator:2"),
        ({"repository": "r.example:5000/x", "digest": DIGEST, "tag": "2"}, f"r.example:5000/x@{DIGEST}"),
    ],
)
def test_image_by_tag_or_digest(chart: Chart, image: dict[str, str], expected: str) -> None:
    container = chart.render({"image": image}).container
    assert container["image"] == expected
    assert "imagePullPolicy" not in container


def test_image_policy_and_secrets(chart: Chart) -> None:
    rendered = chart.render({"image": {"pullPolicy": "Never"}, "imagePullSecrets": [{"name": "registry"}]})
    assert rendered.container["imagePullPolicy"] == "Never"
    assert rendered.pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


POD_VALUES: dict[str, Any] = {
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"x": {}}},
    "priorityClassName": "system-cluster-critical",
    "terminationGracePeriodSeconds": 33,
    "podSecurityContext": {"runAsNonRoot": True},
}
CONTAINER_VALUES: dict[str, Any] = {
    "resources": {"limits": {"memory": "1Gi", "cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}},
    "securityContext": {
        "readOnlyRootFilesystem": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    },
}


def test_pod_values_go_to_the_pod(chart: Chart) -> None:
    values = {**POD_VALUES, "podSecurityContext": {"runAsUser": 7}, "podAnnotations": {"a": "b"}}
    rendered = chart.render(values)
    spec = rendered.pod["spec"]
    for name in POD_VALUES.keys() - {"podSecurityContext"}:
        assert spec[name] == POD_VALUES[name], name
    assert spec["securityContext"]["runAsUser"] == 7
    assert spec["securityContext"]["runAsNonRoot"] is True  # merged with the defaults
    assert rendered.pod["metadata"]["annotations"] == {"a": "b"}
    assert not POD_VALUES.keys() - {"terminationGracePeriodSeconds"} & chart.render().pod["spec"].keys()


def test_container_values_go_to_the_container(chart: Chart) -> None:
    container = chart.render(CONTAINER_VALUES).container
    assert container["resources"] == CONTAINER_VALUES["resources"]
    assert container["securityContext"] == CONTAINER_VALUES["securityContext"]


def test_spread_constraints_select_the_operators_pods(chart: Chart) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    own = {**constraint, "labelSelector": {"matchLabels": {"mine": "yes"}}}
    rendered = chart.render({"topologySpreadConstraints": [constraint, own]})
    [first, second] = rendered.pod["spec"]["topologySpreadConstraints"]
    selector = rendered.one("Deployment")["spec"]["selector"]
    assert first == {**constraint, "labelSelector": selector}
    assert second["labelSelector"]["matchLabels"]["mine"] == "yes"


def test_extra_variables_and_volumes(chart: Chart) -> None:
    values: dict[str, Any] = {
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
    }
    rendered = chart.render(values)
    assert values["extraEnv"][0] in rendered.container["env"]
    assert values["extraVolumes"][0] in rendered.pod["spec"]["volumes"]
    assert values["extraVolumeMounts"][0] in rendered.container["volumeMounts"]


def test_probes_use_the_operators_endpoints(chart: Chart) -> None:
    values = {"livenessProbe": {"periodSeconds": 60}, "startupProbe": {"failureThreshold": 7}}
    container = chart.render(values).container
    assert container["startupProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}
    assert container["startupProbe"]["failureThreshold"] == 7
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}
    assert container["livenessProbe"]["periodSeconds"] == 60
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "probes"}


def test_an_event_loop_that_does_not_turn_costs_about_half_a_minute(chart: Chart) -> None:
    """/healthz is served by that loop, so the kubelet's timeout is what notices it."""
    probe = chart.render().container["livenessProbe"]
    soonest = (probe["failureThreshold"] - 1) * probe["periodSeconds"] + probe["timeoutSeconds"]
    assert probes.PRINT_SECONDS < soonest <= 30 <= soonest + probe["periodSeconds"] <= 35


def test_the_defaults_pass_pod_security_restricted(chart: Chart) -> None:
    """tests/chart/test_grid.py shows it on an API server."""
    rendered = chart.render()
    assert rendered.pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert rendered.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_termination_message_has_the_operators_last_log_line(chart: Chart) -> None:
    """So `kubectl describe` shows why it does not run."""
    assert chart.render().container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_names_follow_the_release(chart: Chart) -> None:
    assert {o["metadata"]["name"].removeprefix("railhead-") for o in chart.render().objects} == {
        "operator", "reports", "view", "edit",
    }  # fmt: skip
    other = chart.render(release="blue")
    assert all(o["metadata"]["name"].startswith("blue-railhead-") for o in other.objects)
    assert "https://blue-railhead-reports." in flags(other)["report_url"]
    named = chart.render({"fullnameOverride": "x", "nameOverride": "y"})
    assert all(o["metadata"]["name"].startswith("x-") for o in named.objects)
    assert chart.render({"nameOverride": "y"}, release="z").one("Deployment")["metadata"]["name"] == "z-y-operator"


@pytest.mark.parametrize("release", RELEASES)
def test_any_release_name_leads_to_valid_service_names(chart: Chart, release: str) -> None:
    """tests/chart/test_grid.py shows it on an API server."""
    rendered = chart.render({"certManager": {"enabled": True}}, release=release)
    name = rendered.one("Service")["metadata"]["name"]
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= 63
    assert release.replace(".", "-") in name  # otherwise two releases in a namespace might share it
    assert f"https://{name}." in flags(rendered)["report_url"]
    assert f"{name}.{NAMESPACE}.svc" in rendered.one("Certificate", name)["spec"]["dnsNames"]


def test_an_existing_service_account_is_used(chart: Chart) -> None:
    rendered = chart.render({"serviceAccount": {"create": False, "name": "mine"}})
    assert rendered.of("ServiceAccount") == []
    assert rendered.pod["spec"]["serviceAccountName"] == "mine"
    subjects = [s for kind in ("ClusterRoleBinding", "RoleBinding") for b in rendered.of(kind) for s in b["subjects"]]
    assert {s["name"] for s in subjects} == {"mine"}


def test_service_account_and_service_get_annotations(chart: Chart) -> None:
    rendered = chart.render({"serviceAccount": {"annotations": {"a": "1"}}, "service": {"annotations": {"b": "2"}}})
    assert rendered.one("ServiceAccount")["metadata"]["annotations"] == {"a": "1"}
    assert rendered.one("Service")["metadata"]["annotations"] == {"b": "2"}
