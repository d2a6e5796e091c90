"""Fits values of any size into a model of the status, by the model's own bounds.

A single value out of bounds would make the API server reject the whole status write, again and again, and terminals act
on control characters. The bounds are those of the model's JSON schema, from which the CRD is made. Patterns and
enumerations are the caller's.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

from railhead.api.schema import LINES, Schema, resolve
from railhead.contract.numbers import MAX_INT32
from railhead.contract.text import clean_line, clean_text
from railhead.contract.times import parse_time

TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[-+][0-9]{2}:[0-9]{2})"
MAX_INT64 = 2**63 - 1

M = TypeVar("M", bound=BaseModel)


def fit(model: type[M], values: Mapping[str, object]) -> M:
    """Returns the model with these values, by the names of its fields, each cut to its bounds.

    A text keeps its beginning, and a list and a map keep their first items. A number becomes the nearest one between
    the model's bounds. Without them that is 0, or the field's default if it is less, to the largest one of its format.
    A time that the API server would refuse becomes None.
    """
    return model.model_validate(_cut(values, _build_bounds(model)))


def fit_text(model: type[BaseModel], field: str, text: str) -> str:
    """Returns the text as `fit` would cut and clean it for this field."""
    return _cut_text(text, _build_bounds(model)["properties"][field]) or ""


def read_limit(model: type[BaseModel], field: str) -> int:
    """Returns how many characters the text of this field may have."""
    return int(_build_bounds(model)["properties"][field]["maxLength"])


def keep_time(text: str) -> str | None:
    """Returns the time as the API server takes it, or None for any other text."""
    if re.fullmatch(TIME, text) and parse_time(text):
        return text
    return None


@cache
def _build_bounds(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(by_alias=False)
    return _inline(schema, schema.get("$defs") or {})


def _inline(node: Schema, defs: Schema) -> Schema:
    node = resolve(copy.deepcopy(node), defs)
    for key in ("items", "additionalProperties", "propertyNames"):
        if isinstance(node.get(key), dict):
            node[key] = _inline(node[key], defs)
    if "properties" in node:
        node["properties"] = {name: _inline(inner, defs) for name, inner in node["properties"].items()}
    return node


def _cut(value: Any, node: Schema) -> Any:
    if value is None or isinstance(value, BaseModel):
        # A model has been validated by the same bounds.
        return value
    match node.get("type"):
        case "string":
            return _cut_text(value, node)
        case "integer":
            return _cut_number(value, node)
        case "array":
            return [_cut(each, node["items"]) for each in value[: node.get("maxItems")]]
        case "object" if "properties" in node:
            return {name: _cut(each, node["properties"][name]) for name, each in value.items()}
        case "object":
            items = list(value.items())[: node.get("maxProperties")]
            keys = node.get("propertyNames", {})
            return {_cut_text(name, keys): _cut(each, node["additionalProperties"]) for name, each in items}
    return value


def _cut_text(text: str, node: Schema) -> str | None:
    if node.get("format") == "date-time":
        return keep_time(text)
    text = text[: node.get("maxLength")]
    if node.get(LINES):
        return clean_text(text)
    return clean_line(text)


def _cut_number(number: int, node: Schema) -> int:
    default: int = node.get("default") or 0
    least: int = node.get("minimum", min(default, 0))
    most: int = node.get("maximum", MAX_INT64 if node.get("format") == "int64" else MAX_INT32)
    return min(max(number, least), most)
