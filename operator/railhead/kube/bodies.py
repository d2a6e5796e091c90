"""The JSON of requests and responses: the parser, JSON Patches, and Events.

pydantic's parser takes two thirds of the standard library's time, and a third to write. The standard library takes what
that one refuses, such as an object of more than 200 levels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json, to_json

from railhead.contract.times import now_text
from railhead.json_object import Object

Body = Object | list[Object]  # of a request; a JSON Patch is a list


def keep_all(obj: Object) -> Object:
    """Returns the object unchanged, for readers that need all of it."""
    return obj


def decode(data: bytes) -> Any:
    """Parses JSON. Raises ValueError if it is none."""
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def encode(value: object) -> bytes:
    """Writes JSON without spaces."""
    try:
        return to_json(value)
    except ValueError:
        return json.dumps(value).encode()


def build_patch(tests: Mapping[str, object], fields: Mapping[str, object], *, under: str) -> list[Object]:
    """Builds a JSON Patch (RFC 6902) as a compare-and-set: first what must still hold, then what changes.

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


def build_event(
    about: Mapping[str, str], *, type_: str, reason: str, message: str, component: str, identity: str | None = None
) -> Object:
    """Builds an Event about the referenced object, from `component`.

    Its name is derived from its content, so a repeated Event is the same object; `identity` replaces the message there.
    """
    digest = hashlib.sha256(f"{about['uid']}/{reason}/{message if identity is None else identity}".encode())
    now = now_text()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name']}.{digest.hexdigest()[:16]}", "namespace": about["namespace"]},
        "involvedObject": dict(about),
        "type": type_,
        "reason": reason,
        "message": message[:1024],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": component},
    }
