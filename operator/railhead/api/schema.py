"""Structural schemas: built from pydantic's JSON schema as the API server accepts them, and compared. Pure.

Building inlines references, drops nulls and titles, lets free-form objects keep unknown fields, and omits fields that
are not implemented yet.

`list_narrowed(old, new)` reports where `new` rejects what `old` accepted: a CRD only ever grows. A test compares the
last released CRD with the current one; a starting operator compares its own CRD with the API server's, because an older
one is just that: narrower.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]
RULES = "x-kubernetes-validations"
LINES = "lines"  # of a text that may have several lines; for `fit` alone
DROPPED = frozenset({"title", "examples", "default_factory", "propertyNames", "const", LINES})
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
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
NESTED = (("items", "[]"), ("additionalProperties", ".*"))


def build_schema(model: type[BaseModel]) -> Schema:
    """Returns the structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(schema, schema.get("$defs") or {})


def _convert(node: Schema, defs: Schema) -> Schema:
    node = resolve(copy.deepcopy(node), defs)
    if "const" in node:
        node["enum"] = [node["const"]]
    if node.get("x-kubernetes-int-or-string"):
        kept: Schema = {k: node[k] for k in ("description", "default", "pattern", "maxLength", RULES) if k in node}
        return {**kept, "x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    out: Schema = {k: v for k, v in node.items() if k not in DROPPED and k != "$defs"}
    if out.get("x-kubernetes-preserve-unknown-fields") and "properties" not in out:
        return _free(out)
    if "properties" in out:
        _convert_properties(out, defs)
    elif "patternProperties" in out or isinstance(out.get("additionalProperties"), dict):
        _convert_map(out, node, defs)
    elif out.get("type") == "object":
        out.pop("additionalProperties", None)
        out["x-kubernetes-preserve-unknown-fields"] = True
    if isinstance(out.get("items"), dict):
        out["items"] = _convert(out["items"], defs)
    if out.get("type") == "array":
        out.setdefault("x-kubernetes-list-type", "atomic")
    if out.get("type") == "integer":
        out.setdefault("format", "int32")
        if "exclusiveMinimum" in out:
            out["minimum"] = out.pop("exclusiveMinimum") + 1
    return out


def resolve(node: Schema, defs: Schema) -> Schema:
    """Resolves a reference and drops the null of an optional field; the field's own keywords win."""
    for key in ("anyOf", "allOf", "oneOf"):
        options = [o for o in node.get(key) or [] if o.get("type") != "null"]
        if key in node and len(options) == 1:
            del node[key]
            node = {**options[0], **node}
    if "$ref" in node:
        name = node.pop("$ref").rsplit("/", 1)[1]
        node = {**resolve(copy.deepcopy(defs[name]), defs), **node}
    if node.get("default", 0) is None:
        del node["default"]
    return node


def _free(out: Schema) -> Schema:
    # A value of any form may also be a list or a string.
    is_of_any_form = out.get("anyForm", False)
    kept: Schema = {"x-kubernetes-preserve-unknown-fields": True, **({} if is_of_any_form else {"type": "object"})}
    kept.update({k: out[k] for k in ("description", "maxProperties") if k in out})
    return kept


def _convert_properties(out: Schema, defs: Schema) -> None:
    out.pop("additionalProperties", None)
    out["properties"] = {name: _convert(p, defs) for name, p in out["properties"].items()}


def _convert_map(out: Schema, node: Schema, defs: Schema) -> None:
    """Converts a map with a pattern for its keys, which the API server supports only as a rule."""
    checks = out.setdefault(RULES, [])
    keys = node.get("propertyNames") or {}
    values = out.get("additionalProperties")
    for pattern, value in (out.pop("patternProperties", None) or {}).items():
        keys = {**keys, "pattern": pattern}
        values = value
    out["additionalProperties"] = _convert(values if isinstance(values, dict) else {}, defs)
    if "pattern" in keys:
        rule = f"self.all(k, k.matches('{keys['pattern']}'))"
        checks.append({"rule": rule, "message": f"a key must match {keys['pattern']}"})
    if "maxLength" in keys:
        rule = f"self.all(k, size(k) <= {keys['maxLength']})"
        checks.append({"rule": rule, "message": f"a key may have at most {keys['maxLength']} characters"})
    if not checks:
        del out[RULES]


def list_narrowed(old: Schema, new: Schema, path: str) -> Iterator[str]:
    """Yields one message per difference, starting with the field's path."""
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
                yield from list_narrowed(old[key], new[key], path + suffix)
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
    """Yields new rules. One is fine when it is about a field that is new here: no old object has that field."""
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
            yield from list_narrowed(field, fields[name], f"{path}.{name}")
        elif not new.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}.{name}: missing"
    if old.get("x-kubernetes-preserve-unknown-fields") and not new.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{path}: unknown fields are not allowed"
