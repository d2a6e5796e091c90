"""Merges one pod template over another, much like a strategic merge: lists with named items merge by name.

Unions (an environment variable's value or source, a volume's type, a probe's handler) are
replaced as a whole: the API server rejects an object with two members of a union set.
"""

from __future__ import annotations

from collections.abc import Mapping

from railhead.json_object import Object

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "hostAliases": "ip",
    "resourceClaims": "name",
    "evictionResponders": "name",
    "claims": "name",
    "schedulingGates": "name",
    "readinessGates": "conditionType",
    "volumeDevices": "devicePath",
}
WHOLE_ITEMS = frozenset({"volumes", "env", "volumeMounts", "resourceClaims", "claims", "volumeDevices"})
WHOLE = frozenset(
    {
        "seccompProfile",
        "appArmorProfile",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "postStart",
        "preStop",
    }
)
APPENDED = frozenset({"tolerations", "envFrom", "topologySpreadConstraints"})


def merge(base: Mapping[str, object], over: Mapping[str, object]) -> Object:
    """Lays `over` on `base`. Maps merge by key, named lists by name, everything else is replaced, and a null replaces
    neither map nor list."""
    merged = dict(base)
    for name, value in over.items():
        if name in merged:
            merged[name] = _merge_values(merged[name], value, key=name)
        else:
            merged[name] = value
    return merged


def _merge_values(base: object, over: object, *, key: str) -> object:
    # Programs and Helm charts write null for what they leave empty; without the base's securityContext, for example,
    # the pod would run as root.
    if over is None and isinstance(base, Mapping | list):
        return base
    if key in WHOLE:
        return over
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return merge(base, over)
    if isinstance(base, list) and isinstance(over, list):
        if key in APPENDED:
            return [*base, *over]
        if key in MERGE_KEYS:
            return _merge_named(base, over, by=MERGE_KEYS[key], is_whole=key in WHOLE_ITEMS)
    return over


def _merge_named(base: list[object], over: list[object], *, by: str, is_whole: bool) -> list[object]:
    merged = list(base)
    places = {name: index for index, item in enumerate(base) if (name := _name(item, by)) is not None}
    for item in over:
        name = _name(item, by)
        place = places.get(name) if name is not None else None
        if place is None:
            merged.append(item)
        else:
            merged[place] = item if is_whole else _merge_values(merged[place], item, key="")
    return merged


def _name(item: object, by: str) -> str | int | None:
    """Returns the item's merge key, or None if the template holds no valid key there."""
    name = item.get(by) if isinstance(item, Mapping) else None
    if isinstance(name, str | int):
        return name
    return None
