"""Which container of a pod has Ray: the one of this name, in the spec as in the status."""

from __future__ import annotations

from railhead.api import names
from railhead.json_object import Object, parts


def read_ray_container(obj: Object, key: str = "containers") -> Object:
    """Returns Ray's container of a list of a pod's spec or status, an empty object if the list has none."""
    for each in parts(obj, key):
        if each.get("name") == names.CONTAINER:
            return each
    return {}
