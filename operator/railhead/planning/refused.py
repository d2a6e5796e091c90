"""What the API server will not have, in one CamelCase word; its own sentence goes with it."""

from __future__ import annotations

SOURCE_NOT_FOUND, CREATE_REFUSED, INVALID = "SourceNotFound", "CreateRefused", "PodInvalid"
# Words of the API server's own admission, which has no codes: the first that is found counts.
_WORDS = (
    ("exceeded quota", "QuotaExceeded"),
    ("failed quota", "QuotaExceeded"),
    ("violates PodSecurity", "PodSecurityViolated"),
    ("error looking up service account", "ServiceAccountNotFound"),
    ("denied the request", "AdmissionDenied"),
    ("denied request", "AdmissionDenied"),
)
# The API server is there and answers 500: somebody else, whom it has to ask, is not.
_WEBHOOK, WEBHOOK_FAILED = "failed calling webhook", "AdmissionWebhookFailed"
REASONS = frozenset({SOURCE_NOT_FOUND, CREATE_REFUSED, INVALID, WEBHOOK_FAILED, *(reason for _, reason in _WORDS)})


def find_reason(kind: str, status: int, message: str) -> str:
    """Of a refused child of this kind, by the status and the message of the answer."""
    if is_of_webhook(status, message):
        return WEBHOOK_FAILED
    for words, reason in _WORDS:
        if words in message:
            return reason
    return INVALID if kind == "Pod" and status == 422 else CREATE_REFUSED


def is_of_webhook(status: int, message: str) -> bool:
    """Whether nothing was made because an admission webhook did not answer."""
    return status == 500 and _WEBHOOK in message
