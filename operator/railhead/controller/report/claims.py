"""What a token says of itself. Not verified: it only spares the API server the tokens that cannot be right. Pure."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from railhead.contract.report import AUDIENCE
from railhead.controller.report.authority import Speaker

MOST_CHARS = 8192  # one of the API server's has about 1,200
PRIVATE = "kubernetes.io"
LATEST = 1e11


@dataclass(frozen=True)
class Claims:
    """The pod that a token names, and the end of its validity in seconds since 1970."""

    speaker: Speaker
    expires: float


def read_claims(token: str) -> Claims | None:
    """None when it is no token of a pod for the report endpoint. Never raises."""
    parts = token.split(".")
    if len(token) > MOST_CHARS or len(parts) != 3 or not all(parts):
        return None
    values = _decode(parts[1])
    names = values.get(PRIVATE)
    pod = names.get("pod") if isinstance(names, dict) else None
    expires = values.get("exp")
    if not isinstance(names, dict) or not isinstance(pod, dict) or AUDIENCE not in _audiences(values):
        return None
    if not isinstance(expires, int | float) or not 0 <= expires <= LATEST:  # nor NaN
        return None
    place = (names.get("namespace"), pod.get("name"), pod.get("uid"))
    if not all(isinstance(each, str) and each for each in place):
        return None
    return Claims(Speaker(*map(str, place)), float(expires))


def _decode(part: str) -> dict[str, Any]:
    try:
        values = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _audiences(values: dict[str, Any]) -> list[Any]:
    found = values.get("aud")
    return found if isinstance(found, list) else [found]
