"""Hides credentials in texts that leave the pod: error messages of libraries contain URLs, headers and values. Pure.

Every exception's text passes through it (`describe.py`), and so does each message of an outcome, a report or a log
line that is built from what other programs print.
"""

from __future__ import annotations

import re
from typing import Mapping

HIDDEN = "(hidden)"
SHORTEST_SECRET = 8  # characters; anything shorter is more likely an ordinary word in the message
_SECRET_NAME = re.compile("KEY|SECRET|TOKEN|PASSW|CREDENTIAL|SAS|CONNECTION_STRING", re.IGNORECASE)
# Before a host: a user with a password, which may contain slashes, but not a port; of http and s3 also a user alone,
# which may be a token.
_USER = re.compile(
    r"\b((?:https?|s3)://(?=[^\s/?#@'\"]{1,500}@)"
    r"|[a-z][a-z0-9+.-]{0,20}://(?=[^\s/?#@:'\"]{0,200}:(?!\d+[/?#])[^\s'\"]{0,500}@))"
    r"[^\s'\"]{0,700}?@(?![^\s/?#'\"]{0,500}@)",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"([?&](?:access_key(?:_id)?|secret_key|secret_access_key|session_token|account_key|sas_token|sig|client_secret"
    r"|password|token|x-amz-(?:credential|signature|security-token))=)[^&\s'\"]+",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(\bAuthorization\W{1,4}\w+ |\bBearer )[-\w.~+/=]{8,}", re.IGNORECASE)
_JWT = re.compile(r"eyJ[-\w]{8,1000}\.[-\w]{1,4000}\.[-\w]+")  # a service account's token


def redact(text: str, environment: Mapping[str, str]) -> str:
    """The text without the credentials in its URLs and headers, tokens of service accounts, and the values of variables
    whose names suggest credentials."""
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    text = _JWT.sub(HIDDEN, _HEADER.sub(rf"\1{HIDDEN}", text))
    secrets = {
        value.strip()
        for name, value in environment.items()
        if len(value.strip()) >= SHORTEST_SECRET and _SECRET_NAME.search(name) and not value.startswith("/")
    }
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def strip_credentials(uri: str) -> str:
    """The URI without them: whoever opens it has them from the environment."""
    base, mark, query = _USER.sub(r"\1", uri).partition("?")
    kept = [part for part in query.split("&") if part and not _QUERY.match(f"&{part}")]
    return f"{base}?{'&'.join(kept)}" if mark and kept else base
