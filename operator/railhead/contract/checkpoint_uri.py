"""The URI of a checkpoint's folder: the run's own, with the folder's name, and back.

The name is the user's. In a URI it is percent-encoded, or what opens the URI would find another folder, or none: a
space is no part of a URI, and `%`, `?` and `#` have a meaning. A path stays as it is.
"""

from __future__ import annotations

from typing import Tuple
from urllib.parse import quote, unquote

_PLAIN = "/=+:,@"  # what a path of a URI may have, so that the usual names stay readable


def build_checkpoint_uri(run_uri: str, name: str) -> str:
    """Returns the URI of the folder `name` in the run; the query of the run's URI stays at its end."""
    path, query = split_query(run_uri)
    if is_uri(run_uri):
        name = quote(name, safe=_PLAIN)
    return f"{path.rstrip('/')}/{name}{query}"


def read_checkpoint_name(uri: str, *, parent: str) -> str:
    """Returns the name of the folder of a checkpoint's URI in `parent`, the run's URI without a query."""
    return _decode(uri, split_query(uri)[0][len(parent) + 1 :])


def read_path(uri: str) -> str:
    """Returns the URI without its query, with the names as they are in the storage."""
    return _decode(uri, split_query(uri)[0])


def _decode(uri: str, part: str) -> str:
    if is_uri(uri):
        return unquote(part)
    return part


def split_query(uri: str) -> Tuple[str, str]:
    """Returns the URI without its query, and the query with its question mark; a path has none."""
    if not is_uri(uri):
        return uri, ""
    path, mark, query = uri.partition("?")
    return path, f"{mark}{query}"


def is_uri(location: str) -> bool:
    """Returns whether it has a scheme; else it is a path."""
    return "://" in location and not location.startswith("/")
