"""What one schema takes and another does not: the promise that a CRD only ever grows. Pure.

`find_narrowed(old, new)` says in words where `new` refuses what `old` took. A test asks it
of the last released CRD and today's; a starting operator asks it of its own CRD and the one
that the API server has, for an older one is just that: narrower.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
LOWER = ("minimum", "minLength", "minItems", "minProperties")
NO_BOUNDS = ((0, "minLength"), (0, "minItems"), (0, "minProperties"))
# Any change of these may refuse what was good, or mean something else.
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
    """One sentence for each place, beginning with the field's path."""
    for key in FIXED:
        if key in old and old[key] != new.get(key):
            yield f"{path}: {key} was {old[key]!r} and is {new.get(key)!r}"
        elif key in new and key not in old and key != "default":
            yield f"{path}: {key} is new"
    yield from _bounds(old, new, path)
    yield from _choices(old, new, path)
    yield from _rules(old, new, path)
    yield from _fields(old, new, path)
    for key, suffix in NESTED:
        if isinstance(old.get(key), dict):
            if isinstance(new.get(key), dict):
                yield from find_narrowed(old[key], new[key], path + suffix)
            elif not new.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}{suffix}: gone"


def _bounds(old: Schema, new: Schema, path: str) -> Iterator[str]:
    for key in (*UPPER, *LOWER):
        sign = 1 if key in UPPER else -1
        if key in old and key in new and sign * new[key] < sign * old[key]:
            yield f"{path}: {key} was {old[key]} and is {new[key]}"
        elif key in new and key not in old and (new[key], key) not in NO_BOUNDS:
            yield f"{path}: {key} {new[key]} is new"


def _choices(old: Schema, new: Schema, path: str) -> Iterator[str]:
    for key in ("enum", "oneOf", "anyOf"):
        if key in new and key not in old:
            yield f"{path}: {key} is new"
        for value in old.get(key, []) if key in new else []:
            if value not in new[key]:
                yield f"{path}: {value!r} is no choice any more"
    if old.get("nullable") and not new.get("nullable"):
        yield f"{path}: null is refused"


def _rules(old: Schema, new: Schema, path: str) -> Iterator[str]:
    """A new rule is good when it speaks of a field that is new here: no old object has that."""
    known = {check["rule"] for check in old.get("x-kubernetes-validations", [])}
    added = set(new.get("properties", {})) - set(old.get("properties", {}))
    for check in new.get("x-kubernetes-validations", []):
        if check["rule"] not in known and not any(f"self.{field}" in check["rule"] for field in added):
            yield f"{path}: the rule {check['rule']!r} is new"


def _fields(old: Schema, new: Schema, path: str) -> Iterator[str]:
    fields = new.get("properties", {})
    for name in new.get("required", []):
        if name not in old.get("required", []) and "default" not in fields.get(name, {}):
            yield f"{path}.{name}: is required now"
    for name, field in old.get("properties", {}).items():
        if name in fields:
            yield from find_narrowed(field, fields[name], f"{path}.{name}")
        elif not new.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}.{name}: gone"
    if old.get("x-kubernetes-preserve-unknown-fields") and not new.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{path}: unknown fields are refused"
