"""Finds what one schema accepts and another rejects: the promise that a CRD only ever grows. Pure.

`find_narrowed(old, new)` reports where `new` rejects what `old` accepted. A test compares the
last released CRD with the current one; a starting operator compares its own CRD with the API
server's, because an older one is just that: narrower.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
LOWER = ("minimum", "minLength", "minItems", "minProperties")
NO_BOUNDS = ((0, "minLength"), (0, "minItems"), (0, "minProperties"))
# Any change of these may reject formerly valid values, or change their meaning.
FIXED: tuple[str, ...] = (
    "type",
    "format",
    "pattern",
    "multipleOf",
    "uniqueItems",
    "default",
    "x-kubernetes-int-or-string",
)
FIXED += ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
NESTED = (("items", "[]"), ("additionalProperties", ".*"))


def find_narrowed(old: Schema, new: Schema, path: str) -> Iterator[str]:
    """One message per difference, starting with the field's path."""
    for key in FIXED:
        if key in old and old[key] != new.get(key):
            yield f"{path}: {key} is {new.get(key)!r} instead of {old[key]!r}"
        elif key in new and key not in old and key != "default":
            yield f"{path}: additional {key}"
    yield from _bounds(old, new, path)
    yield from _choices(old, new, path)
    yield from _rules(old, new, path)
    yield from _fields(old, new, path)
    for key, suffix in NESTED:
        if isinstance(old.get(key), dict):
            if isinstance(new.get(key), dict):
                yield from find_narrowed(old[key], new[key], path + suffix)
            elif not new.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}{suffix}: missing"


def _bounds(old: Schema, new: Schema, path: str) -> Iterator[str]:
    for key in (*UPPER, *LOWER):
        sign = 1 if key in UPPER else -1
        if key in old and key in new and sign * new[key] < sign * old[key]:
            yield f"{path}: {key} is {new[key]} instead of {old[key]}"
        elif key in new and key not in old and (new[key], key) not in NO_BOUNDS:
            yield f"{path}: additional {key} {new[key]}"


def _choices(old: Schema, new: Schema, path: str) -> Iterator[str]:
    for key in ("enum", "oneOf", "anyOf"):
        if key in new and key not in old:
            yield f"{path}: additional {key}"
        for value in old.get(key, []) if key in new else []:
            if value not in new[key]:
                yield f"{path}: {value!r} is not allowed"
    if old.get("nullable") and not new.get("nullable"):
        yield f"{path}: null is not allowed"


def _rules(old: Schema, new: Schema, path: str) -> Iterator[str]:
    """A new rule is fine when it is about a field that is new here: no old object has that field."""
    known = {check["rule"] for check in old.get("x-kubernetes-validations", [])}
    added = set(new.get("properties", {})) - set(old.get("properties", {}))
    for check in new.get("x-kubernetes-validations", []):
        if check["rule"] not in known and not any(f"self.{field}" in check["rule"] for field in added):
            yield f"{path}: additional rule {check['rule']!r}"


def _fields(old: Schema, new: Schema, path: str) -> Iterator[str]:
    fields = new.get("properties", {})
    for name in new.get("required", []):
        if name not in old.get("required", []) and "default" not in fields.get(name, {}):
            yield f"{path}.{name}: is required"
    for name, field in old.get("properties", {}).items():
        if name in fields:
            yield from find_narrowed(field, fields[name], f"{path}.{name}")
        elif not new.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}.{name}: missing"
    if old.get("x-kubernetes-preserve-unknown-fields") and not new.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{path}: unknown fields are not allowed"
