"""Patches and selectors for one object. Pure: an object is never changed, only replaced."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


class BadPatch(Exception):
    """A JSON Patch that cannot be applied, or one of whose tests fails: nothing of it is applied."""


def merge(old: Object, patch: Object) -> Object:
    """A JSON Merge Patch. Strategic ones are treated alike; they, too, replace lists."""
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, dict):
            known = new.get(key)
            new[key] = merge(known if isinstance(known, dict) else {}, value)
        else:
            new[key] = value
    return new


def apply_operations(old: Object, operations: list[Object]) -> Object:
    """A JSON Patch. Raises BadPatch."""
    for operation in operations:
        old = _apply(old, operation)
    return old


def _apply(old: Object, operation: Object) -> Object:
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/"))
    new = dict(old)
    holder = new
    for part in parents:
        if not isinstance(holder.get(part), dict):
            raise BadPatch(operation["path"])
        holder[part] = holder = dict(holder[part])
    kind, value = operation["op"], operation.get("value")
    if kind == "add":
        holder[last] = value
        return new
    if last not in holder or (kind == "test" and holder[last] != value):
        raise BadPatch(operation["path"])
    if kind == "remove":
        del holder[last]
    elif kind == "replace":
        holder[last] = value
    return new


def matches_labels(obj: Object, selector: str) -> bool:
    """The supported selectors: `key` and `key=value`, joined by commas."""
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def matches_fields(obj: Object, selector: str) -> bool:
    """`path=value`, joined by commas; a missing field is empty."""
    for term in filter(None, selector.split(",")):
        path, _, value = term.partition("=")
        found: Any = obj
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if str(found or "") != value:
            return False
    return True
