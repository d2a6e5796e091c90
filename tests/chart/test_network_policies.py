"""Who reaches which port with the policies that the chart and the operator create by default."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import pytest

from railhead.api import names
from railhead.cli import operator
from railhead.cli.operator import add_arguments, read_network_policy
from railhead.resources.base import JobRef
from railhead.resources.network import build_network_policy
from tests.chart.chart import NAMESPACE, Chart
from tests.policies import Network, Pod

UID, OTHER_UID = "0f1e2d3c-1111-2222-3333-444444444444", "ffffffff-2222-4333-8444-555555555555"
GCS, RAY, TORCH, REPORTS, PROBES, DNS, HTTPS = 23456, 10002, 29500, 8443, 8080, 53, 443
METRICS, TUNNEL = 9400, 15008
OF_JOBS = (GCS, RAY, TORCH)


def make_pod(job: str, uid: str, role: str, *, namespace: str = "team") -> Pod:
    return Pod(namespace, {**names.child_labels(job, uid), names.LABEL_ROLE: role})


PODS = {
    "head": make_pod("digits", UID, names.HEAD),
    "worker": make_pod("digits", UID, names.WORKER),
    "another job's head": make_pod("other", OTHER_UID, names.HEAD),
    "another job's worker": make_pod("other", OTHER_UID, names.WORKER),
    "a notebook of the namespace": Pod("team", {"app": "notebook"}),
    "a forgery in another namespace": make_pod("digits", UID, names.WORKER, namespace="elsewhere"),
    "Prometheus": Pod("monitoring", {"app": "prometheus"}),
    "DNS": Pod("kube-system", {"k8s-app": "kube-dns"}),
    "storage": Pod("", ip="192.0.2.7", is_external=True),
}


def make_network(chart: Chart, *, has_metrics: bool = False, **values: Any) -> tuple[Network, Pod]:
    """The policies of two jobs and of the operator, and the operator's pod."""
    rendered = chart.render(values)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = parser.parse_args([arg.replace("$(POD_NAMESPACE)", NAMESPACE) for arg in rendered.container["args"][1:]])
    policies = list(rendered.of("NetworkPolicy"))
    wanted = read_network_policy(options)
    if wanted is not None:
        jobs = (JobRef("team", "digits", UID), JobRef("team", "other", OTHER_UID))
        policies += [build_network_policy(job, wanted, has_metrics=has_metrics) for job in jobs]
    ports = {port["name"]: port["containerPort"] for port in rendered.container["ports"]}
    labels = rendered.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    return Network(policies), Pod(NAMESPACE, labels, ports=ports)


def find_allowed(network: Network, own: Pod) -> set[tuple[str, str, int]]:
    """Source, target and port of the connections that are possible, without those to oneself."""
    pods = {**PODS, "operator": own}
    ports = {"operator": (REPORTS, PROBES), "DNS": (DNS,), "storage": (HTTPS,), "Prometheus": (), "a notebook": ()}
    return {
        (source, target, port)
        for source in pods
        for target in pods
        for port in ports.get(target, OF_JOBS)
        if source != target and not target.startswith("a ") and network.allows(pods[source], pods[target], port)
    }


EVERYBODY = (*PODS, "operator")
OWN = {(a, b, port) for a, b in (("head", "worker"), ("worker", "head")) for port in OF_JOBS}
OF_THE_OTHER = {(f"another job's {a}", f"another job's {b}", port) for a, b, port in OWN}
WITHOUT_LIMIT = {(who, target, port) for who in EVERYBODY for target, port in (("DNS", DNS), ("storage", HTTPS))}
REACH_OPERATOR = {
    *((who, "operator", PROBES) for who in PODS),
    *((who, "operator", REPORTS) for who in EVERYBODY if "head" in who or "worker" in who or "forgery" in who),
}
# The forgery reaches the endpoint and has no token; the pods of jobs are open to nobody else.
DEFAULT = OWN | OF_THE_OTHER | {each for each in WITHOUT_LIMIT if each[0] != each[1]} | REACH_OPERATOR


def test_by_default_only_a_jobs_own_pods_reach_its_pods(chart: Chart) -> None:
    assert find_allowed(*make_network(chart)) == DEFAULT


def test_additional_peers(chart: Chart) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    more = find_allowed(*make_network(chart, jobNetworkPolicy={"extraFrom": [peer]})) - DEFAULT
    assert {(source, port) for source, _, port in more} == {("Prometheus", port) for port in OF_JOBS}
    assert {target for _, target, _ in more} == {name for name in PODS if "job" in name or name in ("head", "worker")}


def test_prometheus_reaches_the_metrics_port_of_heads_and_no_other(chart: Chart) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    network, _ = make_network(chart, has_metrics=True, jobNetworkPolicy={"metricsFrom": [peer]})
    head = replace(PODS["head"], ports={names.METRICS_PORT: METRICS})
    for target, ports in ((head, {METRICS}), (PODS["worker"], set[int]())):
        reached = {port for port in (*OF_JOBS, METRICS) if network.allows(PODS["Prometheus"], target, port)}
        assert reached == ports
    assert not network.allows(PODS["a notebook of the namespace"], head, METRICS)


def test_restricted_egress_leaves_dns_the_report_endpoint_and_what_is_listed(chart: Chart) -> None:
    rule = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": HTTPS}]}
    network, own = make_network(chart, jobNetworkPolicy={"egress": [rule]})
    assert {each for each in find_allowed(network, own) if each[0] == "head"} == {
        *(("head", "worker", port) for port in OF_JOBS),
        ("head", "operator", REPORTS),
        ("head", "storage", HTTPS),
        ("head", "DNS", DNS),
    }
    assert not network.allows(PODS["head"], replace(PODS["storage"], ip="198.51.100.1"), HTTPS)
    assert not network.allows(PODS["head"], PODS["storage"], HTTPS + 1)


RULE = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": HTTPS}]}
OPENSHIFT_DNS = Pod("openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"})
NODE_CACHE = Pod("", ip="169.254.20.10", is_external=True)
CACHE_POD = Pod("kube-system", {"k8s-app": "node-local-dns"})
OWN_RESOLVER = Pod("", ip="fd00:10:96::a", is_external=True)
ANY_SERVER = Pod("", ip="203.0.113.9", is_external=True)
A_POD = Pod("elsewhere", {"k8s-app": "kube-dns"})


@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
def test_restricted_egress_leaves_dns_of_each_kind_of_cluster_and_no_other_server(
    chart: Chart, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "read_resolvers", lambda: ["fd00:10:96::a"])
    network, _ = make_network(chart, jobNetworkPolicy={"egress": [RULE]})
    for server, port in (
        (PODS["DNS"], DNS),
        (OPENSHIFT_DNS, 5353),
        (NODE_CACHE, DNS),
        (CACHE_POD, DNS),
        (OWN_RESOLVER, DNS),
    ):
        assert network.allows(PODS["head"], server, port, protocol), server
    for stranger in (ANY_SERVER, A_POD, PODS["a notebook of the namespace"]):
        assert not network.allows(PODS["head"], stranger, DNS, protocol), stranger
    assert not network.allows(PODS["head"], PODS["DNS"], 443, protocol)


def test_the_dns_of_another_cluster_is_a_value(chart: Chart) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dns"}}}]
    values = {"egress": [RULE], "dns": {"to": peers, "ports": [1053]}}
    network, _ = make_network(chart, jobNetworkPolicy=values)
    assert network.allows(PODS["head"], Pod("dns"), 1053, "UDP")
    assert not network.allows(PODS["head"], Pod("dns"), DNS, "UDP")
    assert not network.allows(PODS["head"], PODS["DNS"], 1053, "UDP")


@pytest.mark.parametrize("is_ambient", [False, True])
def test_the_tunnels_of_a_mesh_get_in_where_it_is_said(chart: Chart, is_ambient: bool) -> None:
    """From those that reach the ports themselves, and from nobody else."""
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    network, own = make_network(
        chart,
        has_metrics=True,
        serviceMesh={"ambient": is_ambient},
        jobNetworkPolicy={"egress": [RULE], "metricsFrom": [peer]},
        networkPolicy={"probesFrom": [peer]},
    )
    head, worker, prometheus = PODS["head"], PODS["worker"], PODS["Prometheus"]
    assert network.allows(head, worker, TUNNEL), "the job's own pods reach each other at all ports"
    for source, target in ((head, own), (prometheus, head), (prometheus, own)):
        assert network.allows(source, target, TUNNEL) is is_ambient
    stranger = PODS["a notebook of the namespace"]
    assert not network.allows(stranger, head, TUNNEL)
    assert not network.allows(stranger, own, TUNNEL)


def test_probes_for_everybody_open_no_tunnel_for_everybody(chart: Chart) -> None:
    network, own = make_network(chart, serviceMesh={"ambient": True})
    stranger = PODS["a notebook of the namespace"]
    assert network.allows(stranger, own, PROBES)
    assert not network.allows(stranger, own, TUNNEL)
    assert network.allows(PODS["head"], own, TUNNEL)


@pytest.mark.parametrize("off", ["jobNetworkPolicy", "networkPolicy"])
def test_either_can_be_switched_off(chart: Chart, off: str) -> None:
    values: dict[str, Any] = {off: {"enabled": False}}
    network, own = make_network(chart, **values)
    stranger = PODS["a notebook of the namespace"]
    assert network.allows(stranger, PODS["head"], GCS) is (off == "jobNetworkPolicy")
    assert network.allows(stranger, own, REPORTS) is (off == "networkPolicy")
