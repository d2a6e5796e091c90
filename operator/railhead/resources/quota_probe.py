"""A pod that requests as much as all pods of a job together. It is never made: a dry run tells whether a ResourceQuota
has room for the whole job, where pods made one by one would hold what others need. Pure.

It cannot tell of a quota that counts pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from railhead.api.quantities import format_resource, parse_quantity
from railhead.json_object import Object, part, parts


def build_quota_probe(head: Object, worker: Object, *, workers: int) -> Object:
    """Returns the pod, under the head's name, for which a refusal by the quota then tells what the whole job needs."""
    spec = {**worker["spec"]}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_scale(each, workers) for each in parts(spec, kind)]
    if spec.get("resources"):
        spec["resources"] = _scale_resources(part(spec, "resources"), workers)
    spec["containers"] = [*spec["containers"], *_list_extra(parts(head["spec"], "containers"))]
    return {**worker, "metadata": {**worker["metadata"], "name": head["metadata"]["name"]}, "spec": spec}


def _list_extra(containers: Iterable[Object]) -> list[Object]:
    """Returns the head's containers without what refers to its volumes and ports."""
    return [
        {"name": f"head-{number}", "image": each.get("image"), **_scale({"resources": each.get("resources")}, 1)}
        for number, each in enumerate(containers)
    ]


def _scale(container: Object, times: int) -> Object:
    return {**container, "resources": _scale_resources(part(container, "resources"), times)}


def _scale_resources(resources: Object, times: int) -> Object:
    """Leaves out claims of devices, which no quota of requests and limits counts."""
    return {
        kind: {name: _multiply(name, amount, times) for name, amount in part(resources, kind).items()}
        for kind in ("requests", "limits")
        if resources.get(kind)
    }


def _multiply(name: str, amount: object, times: int) -> str:
    """Leaves what is no quantity to the API server: a podTemplate may hold anything."""
    try:
        return format_resource(name, parse_quantity(str(amount)) * times)
    except ValueError:
        return str(amount)
