"""What a field of the TrainJob means, from the CRD of this version. Offline, and pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from railhead.api.base import Object
from railhead.api.crd import build_crd
from railhead.client.errors import ClientError, ExitCode

UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')  # in the API server's words


@dataclass(frozen=True)
class Field:
    """One field.

    Attributes:
        type: with the item type of a list, and "required" if it is.
        limits: default, bounds and the values that it takes, as phrases.
        fields: what it contains, as pairs of name and description.
    """

    path: str
    type: str
    description: str
    limits: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]


def explain_field(path: str) -> Field:
    """Returns the field at a path such as spec.scaling.numWorkers, of which "spec." may be left out.

    Raises:
        ClientError: there is no such field; names similar ones.
    """
    schema = _read_schema()
    steps = [step.removesuffix("[]") for step in path.split(".") if step]
    if steps and steps[0] not in schema["properties"]:
        steps.insert(0, "spec")
    here, is_required = schema, False
    for depth, step in enumerate(steps):
        inner = _open(here)
        if step not in inner.get("properties", {}):
            raise _unknown(".".join(steps[: depth + 1]), step, list(inner.get("properties", {})))
        is_required = step in inner.get("required", [])
        here = inner["properties"][step]
    inner = _open(here)
    return Field(
        path=".".join(steps) or "TrainJob",
        type=_describe_type(here) + (", required" if is_required else ""),
        description=str(here.get("description") or inner.get("description") or ""),
        limits=tuple(_list_limits(here)),
        fields=tuple((name, str(each.get("description") or "")) for name, each in inner.get("properties", {}).items()),
    )


def add_suggestions(message: str) -> str:
    """Returns the API server's message, with the fields that an unknown field of it may have been meant to be."""
    found: list[str] = []
    for path in UNKNOWN_FIELD.findall(message):
        found += [each for each in _suggest(path) if each not in found]
    if not found:
        return message
    return f"{message}; did you mean {' or '.join(found)}?"


def _suggest(path: str) -> list[str]:
    """Returns the fields of the same name elsewhere, else those beside it whose names are similar."""
    parent, _, name = re.sub(r"\[[0-9]+\]", "", path).rpartition(".")
    known = list(_list_paths(_read_schema(), ""))
    elsewhere = [each for each in known if each.startswith("spec.") and each.rpartition(".")[2] == name]
    if elsewhere:
        # The shortest ones: a name such as `resources` stands in every template as well.
        return sorted(elsewhere, key=lambda each: each.count("."))[:2]
    beside = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == parent}
    return [beside[close] for close in difflib.get_close_matches(name, beside, n=2)]


def _list_paths(schema: Object, path: str) -> Iterator[str]:
    inner = _open(schema)
    for name, each in inner.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        yield here
        yield from _list_paths(each, here)


def _read_schema() -> Object:
    schema: Object = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _open(schema: Object) -> Object:
    """Returns the schema of a list's items, or of a map's values, else the schema itself."""
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            return _open(schema[key])
    return schema


def _describe_type(schema: Object) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity or number"
    if isinstance(schema.get("items"), dict):
        return f"list of {_describe_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_describe_type(schema['additionalProperties'])}"
    return str(schema.get("type") or "any form")


def _list_limits(schema: Object) -> list[str]:
    names = {"default": "default", "minimum": "at least", "maximum": "at most", "maxItems": "items at most"}
    found = [f"{text} {schema[key]}" for key, text in names.items() if key in schema and schema[key] not in ({}, [])]
    return [*found, *([f"one of {', '.join(map(str, schema['enum']))}"] if "enum" in schema else [])]


def _unknown(path: str, step: str, known: list[str]) -> ClientError:
    close = difflib.get_close_matches(step, known, n=3) or known
    hint = f"; did you mean {', '.join(close)}?" if close else "; its parent has no fields"
    return ClientError(f"there is no field {path}{hint}", ExitCode.NOT_FOUND)
