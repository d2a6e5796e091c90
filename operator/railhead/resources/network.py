"""The network of jobs: the headless Service of a namespace's heads, and the NetworkPolicy of each job.

The Service gives each head a DNS name before it is ready. With the policy a job's pods reach each other, and nothing
else reaches them. Ray's token authentication stays on; the policy keeps other pods off its ports entirely. Egress is
open unless the operator's settings restrict it: storage and datasets differ in every cluster.
"""

from __future__ import annotations

from railhead.api import names
from railhead.api.base import Object
from railhead.resources.base import (
    NO_METADATA,
    CommonMetadata,
    JobNetworkPolicy,
    JobRef,
    build_metadata,
    build_shared_metadata,
)

DNS = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]


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
    if has_metrics and wanted.metrics_from:
        port = {"port": names.METRICS_PORT, "protocol": "TCP"}
        spec["ingress"].append({"from": [*wanted.metrics_from], "ports": [port]})
    if wanted.egress:
        operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": wanted.operator_namespace}}}
        spec["policyTypes"].append("Egress")
        spec["egress"] = [
            {"to": [{"podSelector": pods}]},
            {"ports": DNS},
            {"to": [operator], "ports": [{"port": wanted.report_port, "protocol": "TCP"}]},
            *wanted.egress,
        ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(job, names.network_policy_name(job.name, job.uid)),
        "spec": spec,
    }
