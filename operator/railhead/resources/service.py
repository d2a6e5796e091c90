"""The headless Service that gives each head a DNS name before it is ready: one for all jobs of a namespace."""

from __future__ import annotations

from typing import Any

from railhead.api import names
from railhead.resources.owner import build_shared_metadata


def build_heads_service(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_shared_metadata(namespace, names.HEADS_SERVICE),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_ROLE: names.HEAD},
        },
    }
