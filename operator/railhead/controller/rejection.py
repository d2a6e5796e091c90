"""Turns an API server's rejection into a CamelCase reason. Its own message is kept next to it."""

from __future__ import annotations

from railhead.planning.facts.reasons import ADMISSION_TEXTS, CREATE_REFUSED, POD_INVALID, WEBHOOK_FAILED

# The API server itself is up and answers 500: a webhook that it has to call does not answer.
_WEBHOOK_TEXT = "failed calling webhook"
_STRICT_TEXT = "strict decoding error"


def find_reason(kind: str, status: int, message: str) -> str:
    """The reason why a child of this kind was rejected, by the response's status and message."""
    if is_of_webhook(status, message):
        return WEBHOOK_FAILED
    for text, reason in ADMISSION_TEXTS:
        if text in message:
            return reason
    is_invalid = status == 422 or (status == 400 and _STRICT_TEXT in message)
    return POD_INVALID if kind == "Pod" and is_invalid else CREATE_REFUSED


def is_of_webhook(status: int, message: str) -> bool:
    """Whether nothing was created because an admission webhook did not answer."""
    return status == 500 and _WEBHOOK_TEXT in message
