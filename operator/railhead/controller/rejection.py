"""What the API server will not have, in one CamelCase word. Its own sentence goes with it."""

from __future__ import annotations

from railhead.planning.facts.reasons import ADMISSION_TEXTS, CREATE_REFUSED, POD_INVALID, WEBHOOK_FAILED

# The API server is there and answers 500: somebody else, whom it has to ask, is not.
_WEBHOOK_TEXT = "failed calling webhook"


def find_reason(kind: str, status: int, message: str) -> str:
    """Of a rejected child of this kind, by the status and the message of the answer."""
    if is_of_webhook(status, message):
        return WEBHOOK_FAILED
    for text, reason in ADMISSION_TEXTS:
        if text in message:
            return reason
    return POD_INVALID if kind == "Pod" and status == 422 else CREATE_REFUSED


def is_of_webhook(status: int, message: str) -> bool:
    """Whether nothing was created because an admission webhook did not answer."""
    return status == 500 and _WEBHOOK_TEXT in message
