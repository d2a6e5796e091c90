"""Suggests fields of the TrainJob for one that the API server does not know. Offline, and pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from operator import methodcaller

from railhead.api.crd import build_crd
from railhead.json_object import Object

UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')  # in the API server's words


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
        return sorted(elsewhere, key=methodcaller("count", "."))[:2]
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
