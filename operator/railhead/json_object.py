"""JSON objects as the API server sends them, read without assumptions about their shape."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]  # an object of the API server as JSON, or a part of one


def part(obj: Object, key: str) -> Object:
    """Returns the object under the key, an empty one if there is none."""
    value = obj.get(key)
    if isinstance(value, dict):
        return value
    return {}


def parts(obj: Object, key: str) -> list[Object]:
    """Returns the objects in the list under the key."""
    value = obj.get(key)
    if isinstance(value, list):
        return [each for each in value if isinstance(each, dict)]
    return []


def text(obj: Object, key: str) -> str:
    """Returns the text under the key, "" if there is none."""
    value = obj.get(key)
    if isinstance(value, str):
        return value
    return ""
