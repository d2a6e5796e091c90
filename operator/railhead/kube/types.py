"""An object of the API server: parsed JSON, of which each module reads only the fields that it needs."""

from __future__ import annotations

from railhead.api.base import Object

Body = Object | list[Object]  # of a request; a JSON Patch is a list


def keep_all(obj: Object) -> Object:
    return obj
