"""The four ways a request can fail. Responses are classified here only, and so are the words of admission."""

from __future__ import annotations

import json
import re

from railhead.contract.text import clean_line, clean_text
from railhead.json_object import Object

LONGEST_WAIT_SECONDS = 60.0
# Of a webhook that the API server has to call, and that does not answer.
WEBHOOK_TEXTS = ("failed calling webhook", "conversion webhook for ")
# The API server itself is up, and refuses this very request. The code does not tell, since a webhook chooses it
# (staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go: ToStatusErr): controller-runtime's
# `admission.Errored` with 500 is as much a denial as a 403.
REFUSING_TEXTS = (
    *WEBHOOK_TEXTS,
    "denied the request",
    "denied request",
    'admission webhook "',
    'admission plugin "',
    "etcdserver: request is too large",
    "trying to send message larger than max",
)
HIDDEN = "(hidden)"
# As k8s.io/apimachinery writes the errors of fields; a text is quoted as in Go, an object is JSON or a Go literal.
_QUOTES_VALUE = re.compile(r"(?:(?:Invalid|Unsupported|Duplicate) value|Not found): (?=\S)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


class KubeError(Exception):
    """A failed request.

    Attributes:
        status: HTTP status, 0 when there was no response.
        reason: the API server's reason (`AlreadyExists`, `Conflict`, ...).
        message: the API server's message.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Gone(KubeError):
    """The object, or the start of a watch, does not exist any more (404, 410)."""


class Conflict(KubeError):
    """The object already exists, or a precondition failed (409). A failed JSON Patch test is `Denied`."""


class RetryAfter(KubeError):
    """Not the request's fault: retry later (429, 5xx, no response).

    Attributes:
        seconds: the delay that the server requested, or None.
    """

    def __init__(self, status: int, reason: str, message: str, *, seconds: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.seconds = seconds


class Denied(KubeError):
    """The request cannot succeed unchanged (400, 401, 403; 422, which also means a failed JSON Patch test)."""


def is_of_admission(message: str) -> bool:
    """Returns whether admission, or the limit of an object's size, refuses the request, whatever the answer's code."""
    return any(text in message for text in REFUSING_TEXTS)


def is_changed(error: KubeError) -> bool:
    """Returns whether the object is gone, or another one than the request names by its uid or version. A webhook that
    answers 404 or 409 says something else."""
    if is_of_admission(error.message):
        return False
    texts: tuple[str, ...] = ("precondition", "has been modified")
    if isinstance(error, Gone):
        texts = ("not found",)
    return any(text in error.message.lower() for text in texts)


def is_refusal(error: KubeError) -> bool:
    """Returns whether the answer to a list or watch says that its namespace, kind or the right to it is gone (403,
    404)."""
    return error.status in (403, 404)


def classify_response(
    status: int, body: bytes, *, retry_after: str | None = None, hides_values: bool = False
) -> KubeError:
    """Returns the error for a response with a status of 400 or more."""
    values = _parse(body)
    reason = clean_line(str(values.get("reason") or ""))
    # A webhook may quote what a user wrote.
    message = clean_text(str(values.get("message") or body[:300].decode(errors="replace")))
    if hides_values:
        message = hide_values(message)
    if status in (404, 410):
        return Gone(status, reason, message)
    if status == 409:
        return Conflict(status, reason, message)
    if status == 429 or status >= 500:
        return RetryAfter(status, reason, message, seconds=_seconds(retry_after))
    return Denied(status, reason, message)


def hide_values(message: str) -> str:
    """Returns the API server's message without the values that it quotes, each after such words as `Invalid value: `.

    The values are those of a user's object. Others read the conditions, Events and logs that show the message.
    """
    parts = []
    at = 0
    for found in _QUOTES_VALUE.finditer(message):
        if found.end() < at:
            # This match is within a value that is hidden already.
            continue
        end = _find_end(message, found.end())
        if end is not None:
            parts += [message[at : found.end()], HIDDEN]
            at = end
    return "".join([*parts, message[at:]])


def _find_end(message: str, begin: int) -> int | None:
    """Returns where the value ends that begins there: where its quotes or brackets end, else before `: `. None if it
    is no value, but the reason itself."""
    if message[begin : begin + 1] == '"':
        found = _QUOTED.match(message, begin)
        if found:
            return found.end()
        return len(message)
    depth = 0
    at = begin
    while at < len(message):
        letter = message[at]
        if letter == '"':
            found = _QUOTED.match(message, at)
            at = found.end() if found else len(message)
            continue
        depth += (letter in "{[(") - (letter in "}])")
        if depth == 0 and letter in "}])":
            return at + 1
        if depth <= 0 and (message.startswith(": ", at) or letter == "\n"):
            return at
        at += 1
    # cut off within the value
    if depth > 0:
        return len(message)
    return None


def _parse(body: bytes) -> Object:
    try:
        values = json.loads(body)
    except ValueError:
        return {}
    if isinstance(values, dict):
        return values
    return {}


def _seconds(text: str | None) -> float | None:
    """Parses Retry-After as a number (Kubernetes sends no date), capped at `LONGEST_WAIT_SECONDS`."""
    if text and text.isascii() and text.isdigit():
        return min(float(text), LONGEST_WAIT_SECONDS)
    return None
