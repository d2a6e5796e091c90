"""Marks the variables of a container whose values come from Secrets: the driver hides them whatever their names.

The operator may not read Secrets, so it knows the names of `env`, but not the keys of an `envFrom`. Each of both is
therefore there twice, the second time below a prefix, and the driver finds the values by that.
"""

from __future__ import annotations

from railhead.contract.environment import FROM_SECRET
from railhead.json_object import Object, part, parts, text


def mark_secrets(container: Object) -> Object:
    """Returns the container with a second variable for each that comes from a Secret."""
    variables = [
        {"name": f"{FROM_SECRET}{text(variable, 'name')}", "valueFrom": variable["valueFrom"]}
        for variable in parts(container, "env")
        if "secretKeyRef" in part(variable, "valueFrom")
    ]
    sources = [
        {**source, "prefix": f"{FROM_SECRET}{text(source, 'prefix')}"}
        for source in parts(container, "envFrom")
        if "secretRef" in source
    ]
    marked = dict(container)
    if variables:
        marked["env"] = [*container["env"], *variables]
    if sources:
        marked["envFrom"] = [*container["envFrom"], *sources]
    return marked
