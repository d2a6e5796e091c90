"""The NetworkPolicy of one job: its pods talk among themselves, and nobody else reaches them.

What they reach is left open: storage, data sets, the report endpoint and cluster DNS are
different everywhere. Ray's own token stays on; this keeps others from its ports at all.
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
