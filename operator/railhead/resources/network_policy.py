"""The NetworkPolicy of one job: its pods reach each other, and nothing else reaches them.

Egress stays open: storage, datasets, the report endpoint and cluster DNS differ in every
cluster. Ray's token authentication stays on; the policy keeps other pods off its ports entirely.
"""

from __future__ import annotations

from typing import Any

from railhead.api import names
from railhead.resources.owner import JobRef, build_metadata


def build_network_policy(job: JobRef) -> dict[str, Any]:
    """For head and workers of all attempts."""
    pods = {"matchLabels": {names.LABEL_JOB_UID: job.uid}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(job, names.network_policy_name(job.name, job.uid)),
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": pods}]}]},
    }
