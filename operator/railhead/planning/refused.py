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
REASONS = frozenset({SOURCE_NOT_FOUND, CREATE_REFUSED, INVALID, *(reason for _, reason in _WORDS)})


def find_reason(kind: str, status: int, message: str) -> str:
    """Of a refused child of this kind, by the status and the message of the answer."""
    for words, reason in _WORDS:
        if words in message:
            return reason
    return INVALID if kind == "Pod" and status == 422 else CREATE_REFUSED
