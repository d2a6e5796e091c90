"""Converts pydantic's JSON schema into the structural schema that the API server accepts.

Inlines references, drops nulls and titles, lets free-form objects keep unknown fields, and
omits fields that are not implemented yet.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]
RULES = "x-kubernetes-validations"
DROPPED = frozenset({"title", "examples", "default_factory", "propertyNames", "const"})


def build_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(schema, schema.get("$defs") or {})


def _convert(node: Schema, defs: Schema) -> Schema:
    node = _resolve(copy.deepcopy(node), defs)
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


def _resolve(node: Schema, defs: Schema) -> Schema:
    """Resolves a reference and drops the null of an optional field; the field's own keywords win."""
    for key in ("anyOf", "allOf", "oneOf"):
        options = [o for o in node.get(key) or [] if o.get("type") != "null"]
        if key in node and len(options) == 1:
            del node[key]
            node = {**options[0], **node}
    if "$ref" in node:
        name = node.pop("$ref").rsplit("/", 1)[1]
        node = {**_resolve(copy.deepcopy(defs[name]), defs), **node}
    if node.get("default", 0) is None:
        del node["default"]
    return node


def _free(out: Schema) -> Schema:
    is_of_any_form = out.get("anyForm", False)  # also a list or a string
    kept: Schema = {"x-kubernetes-preserve-unknown-fields": True, **({} if is_of_any_form else {"type": "object"})}
    kept.update({k: out[k] for k in ("description", "maxProperties") if k in out})
    return kept


def _convert_properties(out: Schema, defs: Schema) -> None:
    out.pop("additionalProperties", None)
    properties = {n: p for n, p in out["properties"].items() if not p.get("planned")}
    out["properties"] = {name: _convert(p, defs) for name, p in properties.items()}
    required = [name for name in out.get("required") or [] if name in properties]
    out.pop("required", None)
    if required:
        out["required"] = required


def _convert_map(out: Schema, node: Schema, defs: Schema) -> None:
    """A map with a pattern for its keys, which the API server supports only as a rule."""
    checks = out.setdefault(RULES, [])
    keys = node.get("propertyNames") or {}
    values = out.get("additionalProperties")
    for pattern, value in (out.pop("patternProperties", None) or {}).items():
        keys, values = {**keys, "pattern": pattern}, value
    out["additionalProperties"] = _convert(values if isinstance(values, dict) else {}, defs)
    if "pattern" in keys:
        rule = f"self.all(k, k.matches('{keys['pattern']}'))"
        checks.append({"rule": rule, "message": f"a key must match {keys['pattern']}"})
    if "maxLength" in keys:
        rule = f"self.all(k, size(k) <= {keys['maxLength']})"
        checks.append({"rule": rule, "message": f"a key may have at most {keys['maxLength']} characters"})
    if not checks:
        del out[RULES]
