"""What can go wrong with a request, as four outcomes. Translated once, here."""

from __future__ import annotations

import json

from railhead.kube.types import Object

LONGEST_WAIT_SECONDS = 60.0


class KubeError(Exception):
    """A request that did not succeed.

    Attributes:
        status: HTTP status, 0 when there was no answer.
        reason: the API server's word (`AlreadyExists`, `Conflict`, ...).
        message: the API server's sentence.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Gone(KubeError):
    """The object, or the point of a watch, is not there (404, 410)."""


class Conflict(KubeError):
    """Somebody was first: it exists already, or a precondition did not hold (409). A failed JSON Patch is `Denied`."""


class RetryAfter(KubeError):
    """No fault of the request: try again later (429, 5xx, no answer).

    Attributes:
        seconds: what the server asked for, or None.
    """

    def __init__(self, status: int, reason: str, message: str, *, seconds: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.seconds = seconds


class Denied(KubeError):
    """The request will not succeed as it is (400, 401, 403; 422, which a failed JSON Patch test is as well)."""


def classify_response(status: int, body: bytes, *, retry_after: str | None = None) -> KubeError:
    """The outcome that an answer of 400 or more means."""
    values = _parse(body)
    reason = str(values.get("reason") or "")
    message = str(values.get("message") or body[:300].decode(errors="replace"))
    if status in (404, 410):
        return Gone(status, reason, message)
    if status == 409:
        return Conflict(status, reason, message)
    if status == 429 or status >= 500:
        return RetryAfter(status, reason, message, seconds=_seconds(retry_after))
    return Denied(status, reason, message)


def _parse(body: bytes) -> Object:
    try:
        values = json.loads(body)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _seconds(text: str | None) -> float | None:
    """Of Retry-After in its form as a number; Kubernetes sends no date. Nobody makes us wait for long."""
    return min(float(text), LONGEST_WAIT_SECONDS) if text and text.isascii() and text.isdigit() else None
