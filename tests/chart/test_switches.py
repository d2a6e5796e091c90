"""Optional objects, and what all objects have in common."""

from __future__ import annotations

import json
import re

from railhead.api import names
from tests.chart.chart import NAMESPACE, Chart


def test_the_disruption_budget_is_optional(chart: Chart) -> None:
    assert chart.render().of("PodDisruptionBudget") == []
    rendered = chart.render({"podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"}})
    spec = rendered.one("PodDisruptionBudget")["spec"]
    assert spec["maxUnavailable"] == "50%"
    assert spec["selector"] == rendered.one("Deployment")["spec"]["selector"]


def test_the_pod_monitor_selects_the_metrics_port(chart: Chart) -> None:
    assert chart.render().of("PodMonitor") == []
    rendered = chart.render({"podMonitor": {"enabled": True, "interval": "1m30s", "labels": {"release": "prometheus"}}})
    monitor = rendered.one("PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"] == rendered.one("Deployment")["spec"]["selector"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "probes", "path": "/metrics", "interval": "1m30s", "honorLabels": True}
    assert endpoint["port"] in {p["name"] for p in rendered.container["ports"]}


def test_a_second_pod_monitor_selects_the_heads_of_jobs(chart: Chart) -> None:
    [monitor] = chart.render({"podMonitor": {"jobs": True, "labels": {"release": "prometheus"}}}).of("PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"] == {"matchLabels": {names.LABEL_ROLE: names.HEAD}}
    assert monitor["spec"]["namespaceSelector"] == {"any": True}
    assert [each["port"] for each in monitor["spec"]["podMetricsEndpoints"]] == [names.METRICS_PORT]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [kept] = endpoint["metricRelabelings"]
    assert (kept["action"], kept["sourceLabels"]) == ("keep", ["__name__"])
    assert re.fullmatch(kept["regex"], "railhead_job_step") and not re.fullmatch(kept["regex"], "railhead_build_info")
    assert monitor["spec"]["sampleLimit"] > 3 * 2048, "each GPU of a job has three series"
    [limited] = chart.render({"podMonitor": {"jobs": True}, "watchNamespaces": ["a", "b"]}).of("PodMonitor")
    assert limited["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}
    assert len(chart.render({"podMonitor": {"enabled": True, "jobs": True}}).of("PodMonitor")) == 2


def test_metrics_with_authentication_are_scraped_over_https(chart: Chart) -> None:
    monitor = {"enabled": True, "tokenSecret": {"name": "scraper"}}
    values = {"metrics": {"authentication": True}, "podMonitor": monitor, "networkPolicy": {"enabled": True}}
    rendered = chart.render(values)
    [endpoint] = rendered.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint == {
        "port": "metrics",
        "path": "/metrics",
        "scheme": "https",
        "interval": "30s",
        "honorLabels": True,
        "authorization": {"credentials": {"name": "scraper", "key": "token"}},
        "tlsConfig": {
            "serverName": f"railhead-reports.{NAMESPACE}.svc",
            "ca": {"secret": {"name": "railhead-report-tls", "key": "ca.crt"}},
        },
    }
    [port] = [each for each in rendered.container["ports"] if each["name"] == "metrics"]
    assert f"--metrics-listen=[::]:{port['containerPort']}" in rendered.container["args"]
    assert "://railhead-reports.$(POD_NAMESPACE).svc:" in " ".join(rendered.container["args"])
    assert {"port": "metrics"} in rendered.one("NetworkPolicy")["spec"]["ingress"][1]["ports"]
    issued = chart.render({**values, "certManager": {"enabled": True}}).one("PodMonitor")
    [endpoint] = issued["spec"]["podMetricsEndpoints"]
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "railhead-reports-tls", "key": "ca.crt"}


def test_the_network_policy_allows_job_pods_and_probes(chart: Chart) -> None:
    assert chart.render({"networkPolicy": {"enabled": False}}).of("NetworkPolicy") == []
    rendered = chart.render()
    spec = rendered.one("NetworkPolicy")["spec"]
    assert spec["podSelector"] == rendered.one("Deployment")["spec"]["selector"]
    assert spec["policyTypes"] == ["Ingress"]
    [reports, probes] = spec["ingress"]
    assert {p["port"] for r in (reports, probes) for p in r["ports"]} == {
        p["name"] for p in rendered.container["ports"]
    }
    [peer] = reports["from"]
    assert peer["podSelector"]["matchExpressions"] == [{"key": "railhead.dev/job-uid", "operator": "Exists"}]
    assert "from" not in probes


def test_the_network_policy_can_be_narrowed_and_widened(chart: Chart) -> None:
    peer = {"ipBlock": {"cidr": "10.0.0.0/8"}}
    policy = {"enabled": True, "extraFrom": [peer], "probesFrom": [peer], "egress": [{"to": [peer]}]}
    spec = chart.render({"networkPolicy": policy}).one("NetworkPolicy")["spec"]
    assert peer in spec["ingress"][0]["from"]
    assert spec["ingress"][1]["from"] == [peer]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == [{"to": [peer]}]


def test_the_flow_schema_matches_the_operators_requests_only(chart: Chart) -> None:
    assert chart.render().of("FlowSchema") == chart.render().of("PriorityLevelConfiguration") == []
    values = {"flowSchema": {"enabled": True, "concurrencyShares": 7}, "serviceAccount": {"name": "mine"}}
    rendered = chart.render(values)
    level, schema = rendered.one("PriorityLevelConfiguration"), rendered.one("FlowSchema")
    assert level["spec"]["limited"]["nominalConcurrencyShares"] == 7
    assert schema["spec"]["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
    [rule] = schema["spec"]["rules"]
    account = {"name": "mine", "namespace": NAMESPACE}
    assert rule["subjects"] == [{"kind": "ServiceAccount", "serviceAccount": account}]
    assert schema["spec"]["matchingPrecedence"] < 9000, "before the FlowSchema of all service accounts"


def test_extra_objects_are_part_of_the_release(chart: Chart) -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-text'}\n"
    rendered = chart.render({"extraObjects": [plain, text]})
    assert {o["metadata"]["name"] for o in rendered.of("ConfigMap")} == {"plain", "railhead-text"}


def test_common_labels_are_on_all_objects_and_never_replace_the_charts_own(chart: Chart) -> None:
    switches = {"podDisruptionBudget": {"enabled": True}, "networkPolicy": {"enabled": True}, "watchNamespaces": ["a"]}
    labels = {"cost-center": "42", "app.kubernetes.io/name": "mine"}
    rendered = chart.render({"commonLabels": labels, "crds": {"enabled": True}, **switches})
    assert {o["kind"] for o in rendered.objects} == {
        "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment", "NetworkPolicy",
        "PodDisruptionBudget", "Role", "RoleBinding", "Service", "ServiceAccount",
    }  # fmt: skip
    for found in (*rendered.objects, rendered.pod):
        assert (
            found["metadata"]["labels"].items() >= {"cost-center": "42", "app.kubernetes.io/name": "railhead"}.items()
        )


def test_objects_are_in_the_releases_namespace_or_a_watched_one(chart: Chart) -> None:
    rendered = chart.render({"watchNamespaces": ["a"], "networkPolicy": {"enabled": True}})
    namespaces = {o["metadata"].get("namespace") for o in rendered.objects if not o["kind"].startswith("Cluster")}
    assert namespaces == {NAMESPACE, "a"}


def test_common_annotations_are_on_all_objects_and_their_own_win(chart: Chart) -> None:
    switches = {
        "podDisruptionBudget": {"enabled": True},
        "podMonitor": {"enabled": True, "jobs": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
        "flowSchema": {"enabled": True},
        "certManager": {"enabled": True},
        "metrics": {"authentication": False},
        "jobs": {"restrictPodTemplate": True},
        "crds": {"enabled": True},
        "service": {"annotations": {"owner": "me", "mine": "yes"}},
    }
    rendered = chart.render({"commonAnnotations": {"owner": "ml", "cost": "$(42)"}, **switches})
    assert len({each["kind"] for each in rendered.objects}) > 15
    for found in (*rendered.objects, rendered.pod):
        assert found["metadata"]["annotations"]["cost"] == "$(42)", found["kind"]
    [service] = rendered.of("Service")
    assert service["metadata"]["annotations"] == {"owner": "me", "mine": "yes", "cost": "$(42)"}


def test_common_labels_and_annotations_reach_what_the_operator_creates(chart: Chart) -> None:
    labels = {"team": "ml", "app.kubernetes.io/name": "mine"}
    values = {"commonLabels": labels, "commonAnnotations": {"cost": "$(42)"}}
    arguments = chart.render(values).container["args"]
    assert '--common-labels={"team":"ml"}' in arguments
    assert '--common-annotations={"cost":"$$(42)"}' in arguments, "or the kubelet would expand it"
    assert not [each for each in chart.render().container["args"] if each.startswith("--common-")]


def test_no_pod_has_an_id_that_the_cluster_chooses(chart: Chart) -> None:
    rendered = chart.render({"podUser": "Cluster"})
    assert "--job-pod-user=Cluster" in rendered.container["args"]
    ids = ("runAsUser", "runAsGroup", "fsGroup")
    assert [key for key in ids if key in json.dumps(rendered.pod)] == []
    assert rendered.pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert "--job-pod-user" not in json.dumps(chart.render().pod)
