"""The scheduler's choice of a node, from the Node objects of the model's API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model.api_server import ENDED, ModelApiServer

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"
KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")


def make_node(name: str) -> Object:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    metadata = {"name": name, "labels": {HOST: name}}
    return {"kind": "Node", "metadata": metadata, "spec": {}, "status": {"conditions": [ready]}}


def choose_node(api: ModelApiServer, pod: Object) -> str:
    """The first node, by name, on which the pod fits, or an empty string. Each node has room for one pod that requests
    GPUs, as with eight of eight, and for any number of others."""
    used = {
        each["spec"].get("nodeName")
        for each in _pods(api)
        if each["status"].get("phase") not in ENDED and needs_gpus(each)
    }
    nodes = sorted(name for plural, _, name in api.objects if plural == "nodes")
    avoided, wanted = set(_find_avoided(pod)), (pod["spec"].get("nodeSelector") or {}).get(HOST)
    for name in nodes:
        node = api.objects["nodes", "", name]
        if is_open(node) and wanted in (None, name) and name not in avoided and not (needs_gpus(pod) and name in used):
            return name
    return ""


def is_open(node: Object) -> bool:
    """It takes new pods: it is not cordoned, and has no taint that the job's pods would not tolerate for long."""
    taints = node["spec"].get("taints") or []
    return not node["spec"].get("unschedulable") and all(each["effect"] not in KEEPS_PODS_AWAY for each in taints)


def _pods(api: ModelApiServer) -> Iterator[Object]:
    return iter(api.objects.of("pods"))


def needs_gpus(pod: Object) -> bool:
    limits = [(each.get("resources") or {}).get("limits") or {} for each in pod["spec"].get("containers") or []]
    return any("nvidia.com/gpu" in each for each in limits)


def _find_avoided(pod: Object) -> Iterator[str]:
    """Names of nodes that its affinity excludes."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for each in term.get("matchFields") or []:
            if (each["key"], each["operator"]) == ("metadata.name", "NotIn"):
                yield from each["values"]
