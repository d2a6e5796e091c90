"""JSON Patches (RFC 6902) as a compare-and-set: first what must still hold, then what changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.api.base import Object


def build_patch(tests: Mapping[str, Any], fields: Mapping[str, Any], *, under: str) -> list[Object]:
    """Builds the operations of a patch.

    Args:
        tests: the value that the object must have at each JSON pointer.
        fields: the new value of each field of the object `under`; None removes it, whether or not it exists.
        under: a JSON pointer, such as /status.
    """
    operations: list[Object] = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    for field, value in fields.items():
        path = f"{under}/{field}"
        operations.append({"op": "add", "path": path, "value": {} if value is None else value})
        if value is None:
            operations.append({"op": "remove", "path": path})
    return operations
