"""Keeps a pod away from nodes that the job avoids, whatever else its templates require of nodes. Pure.

The nodes are also in an annotation: the affinity of a pod cannot be changed, and it shows whether it is out of date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from railhead.api.names import AVOIDED_NODES
from railhead.resources.node_affinity import require_nodes


def avoid_nodes(pod: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """The pod with one requirement per node: the API server takes one value in each that names nodes."""
    metadata, spec = pod["metadata"], dict(pod["spec"])
    annotations = {key: value for key, value in metadata["annotations"].items() if key != AVOIDED_NODES}
    affinity = spec.get("affinity") or {}
    if nodes and isinstance(affinity, Mapping):
        fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
        spec["affinity"] = {
            **affinity,
            "nodeAffinity": require_nodes(affinity.get("nodeAffinity"), "matchFields", fields),
        }
        annotations[AVOIDED_NODES] = ",".join(nodes)
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
