"""Hides credentials in texts that others read."""

from __future__ import annotations

import base64
import functools
import os
import re
from typing import Mapping
from urllib.parse import quote

from railhead.contract.environment import FROM_SECRET

HIDDEN = "(hidden)"
# Characters: what a Secret holds is hidden from 4 on, what only has the name of a credential from 6 on. Anything
# shorter is more likely an ordinary word in the message.
SHORTEST_OF_SECRET = 4
SHORTEST_BY_NAME = 6
# Below it, a value is hidden as a whole word only.
SHORTEST_PART = 8
# What Secrets hold besides credentials, and what any message may say.
_ORDINARY = re.compile(
    r"\d{1,5}|true|false|none|null|auto|default|enabled|disabled|root|admin|user|username|public|private|guest|test"
    r"|localhost|postgres|mysql|redis|http|https|bearer|basic",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    "KEY|SECRET|TOKEN|PASSW|PWD|CREDENTIAL|SAS|CONNECTION_STRING|AUTH(?!OR(?!IZ))|COOKIE|DSN|PRIVATE", re.IGNORECASE
)
_FOLDERS = ("PWD", "OLDPWD")  # of a shell
# Before a host: a user with a password, which may contain slashes, but not a port; of http and s3 also a user alone,
# which may be a token.
_USER = re.compile(
    r"\b((?:https?|s3)://(?=[^\s/?#@'\"]{1,500}@)"
    r"|[a-z][a-z0-9+.-]{0,20}://(?=[^\s/?#@:'\"]{0,200}:(?!\d+[/?#])[^\s'\"]{0,500}@))"
    r"[^\s'\"]{0,700}?@(?![^\s/?#'\"]{0,500}@)",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"([?&](?:access_key(?:_id)?|api_?key|secret_key|secret_access_key|session_token|account_key|sas_token|sig|client_secret"
    r"|password|token|x-amz-(?:credential|signature|security-token))=)[^&\s'\"]+",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(\bAuthorization\W{1,4}\w+ |\bBearer )[-\w.~+/=]{8,}", re.IGNORECASE)
_JWT = re.compile(r"eyJ[-\w]{8,1000}\.[-\w]{1,4000}\.[-\w]+")  # a service account's token


def make_printable(text: str) -> str:
    """Escapes what cannot be encoded, such as one half of a surrogate pair."""
    return str.encode(text, "utf-8", "backslashreplace").decode("utf-8")


def redact(text: str) -> str:
    """Returns the text printable and without credentials: for texts that others read."""
    return make_printable(hide_credentials(text, os.environ))


def hide_credentials(text: str, environment: Mapping[str, str]) -> str:
    """Returns the text without credentials: those in its URLs and headers, tokens of service accounts, and the values
    of variables that come from a Secret or whose names suggest credentials."""
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    text = _JWT.sub(HIDDEN, _HEADER.sub(rf"\1{HIDDEN}", text))
    secrets = _build_pattern(
        frozenset(value for name, value in environment.items() if name.startswith(FROM_SECRET)),
        frozenset(value for name, value in environment.items() if _SECRET_NAME.search(name) and name not in _FOLDERS),
    )
    return secrets.sub(HIDDEN, text)


@functools.lru_cache(maxsize=8)  # for each line of a log; a process seldom changes its environment
def _build_pattern(of_secrets: frozenset[str], by_name: frozenset[str]) -> re.Pattern[str]:
    """Returns a pattern of all values to hide, also in the forms that requests and manifests give them."""
    found: set[str] = set()
    for values, shortest in ((of_secrets, SHORTEST_OF_SECRET), (by_name, SHORTEST_BY_NAME)):
        for value in values:
            # A key in PEM is printed line by line.
            for secret in {value.strip(), *(line.strip() for line in value.splitlines())}:
                if len(secret) >= shortest and not _ORDINARY.fullmatch(secret) and not _is_path(secret):
                    found |= _list_forms(secret)
    patterns = []
    # The longest first: a pattern takes the first alternative that fits, and the rest of a longer secret would stay.
    for secret in sorted(sorted(found), key=len, reverse=True):
        pattern = re.escape(secret)
        if len(secret) < SHORTEST_PART:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        patterns.append(pattern)
    return re.compile("|".join(patterns) or r"(?!)")


def _is_path(value: str) -> bool:
    """Returns whether the value is where a credential is, rather than the credential."""
    return value.startswith("/") and os.path.lexists(value)


def _list_forms(secret: str) -> set[str]:
    """Returns the value itself, as in a URL, and in base64."""
    # A Secret may have bytes that are no text.
    data = secret.encode("utf-8", "backslashreplace")
    forms = {secret, quote(data, safe="")}
    if len(secret) >= SHORTEST_PART:
        forms.add(base64.b64encode(data).decode().rstrip("="))
    return forms


def strip_credentials(uri: str) -> str:
    """Returns the URI without them: whoever opens it has them from the environment."""
    base, mark, query = _USER.sub(r"\1", uri).partition("?")
    kept = [part for part in query.split("&") if part and not _QUERY.match(f"&{part}")]
    if mark and kept:
        return f"{base}?{'&'.join(kept)}"
    return base
