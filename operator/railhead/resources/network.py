"""The network of jobs: the headless Service of a namespace's heads, and the NetworkPolicy of each job.

The Service gives each head a DNS name before it is ready. With the policy a job's pods reach each other, and nothing
else reaches them. Ray's token authentication stays on; the policy keeps other pods off its ports entirely. Egress is
open unless the operator's settings restrict it: storage and datasets differ in every cluster.

A policy is judged after the address and port of a Service have become those of a pod, with most network plugins: so its
rule for DNS names the pods that answer, and the ports at which they listen.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from railhead.api import names
from railhead.json_object import Object
from railhead.resources.base import (
    NO_METADATA,
    CommonMetadata,
    JobNetworkPolicy,
    JobRef,
    Peer,
    build_metadata,
    build_shared_metadata,
)

NAMESPACE = "kubernetes.io/metadata.name"  # a label that each namespace has
HBONE_PORT = 15008  # of the tunnels of Istio's ambient mode, which carry connections to any port
DNS_LABELS = ["kube-dns", "node-local-dns"]  # CoreDNS, kube-dns, and a cache on each node as a pod
OPENSHIFT_DNS = "openshift-dns"
NODE_CACHE = "169.254.20.10"  # of NodeLocal DNSCache on its node, where a webhook may give it to pods of jobs only


def build_dns_peers(resolvers: Iterable[str]) -> tuple[Peer, ...]:
    """Returns who answers DNS in most clusters; `resolvers`: addresses that the operator's own pod asks.

    These are the DNS Service's, or those of a cache on each node that answers at the same address. Some network plugins
    judge a connection by them.
    """
    of_kubernetes = {
        "namespaceSelector": {"matchLabels": {NAMESPACE: "kube-system"}},
        "podSelector": {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": DNS_LABELS}]},
    }
    of_openshift = {"namespaceSelector": {"matchLabels": {NAMESPACE: OPENSHIFT_DNS}}}
    blocks = [{"ipBlock": {"cidr": _write_block(address)}} for address in dict.fromkeys([NODE_CACHE, *resolvers])]
    return (of_kubernetes, of_openshift, *blocks)


def _write_block(address: str) -> str:
    parsed = ip_address(address)
    return f"{parsed}/{parsed.max_prefixlen}"


def build_heads_service(namespace: str, common: CommonMetadata = NO_METADATA) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_shared_metadata(namespace, names.HEADS_SERVICE, common),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_ROLE: names.HEAD},
        },
    }


def build_network_policy(job: JobRef, wanted: JobNetworkPolicy, *, has_metrics: bool = False) -> Object:
    """Returns the NetworkPolicy for head and workers of all attempts.

    The rule for the metrics (spec.metrics) has the port's name, which only the head's container has: a number would
    open that port of the workers too.
    """
    pods = {"matchLabels": {names.LABEL_JOB_UID: job.uid}}
    spec: Object = {
        "podSelector": pods,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": pods}, *wanted.extra_from]}],
    }
    tunnel = [{"port": HBONE_PORT, "protocol": "TCP"}] if wanted.is_ambient else []
    if has_metrics and wanted.metrics_from:
        port = {"port": names.METRICS_PORT, "protocol": "TCP"}
        spec["ingress"].append({"from": [*wanted.metrics_from], "ports": [port, *tunnel]})
    if wanted.egress:
        operator = {"namespaceSelector": {"matchLabels": {NAMESPACE: wanted.operator_namespace}}}
        reports = {"port": wanted.report_port, "protocol": "TCP"}
        spec["policyTypes"].append("Egress")
        spec["egress"] = [
            {"to": [{"podSelector": pods}]},
            _build_dns_rule(wanted),
            {"to": [operator], "ports": [reports, *tunnel]},
            *wanted.egress,
        ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(job, names.network_policy_name(job.name, job.uid)),
        "spec": spec,
    }


def _build_dns_rule(wanted: JobNetworkPolicy) -> Object:
    rule: Object = {
        "ports": [{"port": port, "protocol": protocol} for port in wanted.dns_ports for protocol in ("UDP", "TCP")]
    }
    if wanted.dns_to:
        rule["to"] = [*wanted.dns_to]
    return rule
