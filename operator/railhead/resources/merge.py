"""Merges a pod template over another, as a strategic merge would: by name where lists have names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "hostAliases": "ip",
}
APPENDED = frozenset({"tolerations", "envFrom", "topologySpreadConstraints"})


def merge(base: Any, over: Any, *, key: str = "") -> Any:
    """`over` laid on `base`. Maps merge by key, named lists by name, everything else is replaced."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        merged = dict(base)
        for name, value in over.items():
            merged[name] = merge(merged[name], value, key=name) if name in merged else value
        return merged
    if isinstance(base, list) and isinstance(over, list):
        if key in APPENDED:
            return [*base, *over]
        if key in MERGE_KEYS:
            return _merge_named(base, over, by=MERGE_KEYS[key])
    return over


def _merge_named(base: list[Any], over: list[Any], *, by: str) -> list[Any]:
    merged = list(base)
    places = {item.get(by): index for index, item in enumerate(base) if isinstance(item, Mapping)}
    for item in over:
        name = item.get(by) if isinstance(item, Mapping) else None
        if name is not None and name in places:
            merged[places[name]] = merge(merged[places[name]], item)
        else:
            merged.append(item)
    return merged
