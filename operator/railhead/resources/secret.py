"""The Secret with Ray's token.

The operator has no right to read it and need not: the token follows from a key that only the
operator has, and the Secret's name carries the token's digest.
"""

from __future__ import annotations

import hmac
from typing import Any

from railhead.api import names
from railhead.contract.digest import digest
from railhead.resources.owner import JobRef, build_metadata
from railhead.resources.settings import OperatorSettings

TOKEN_KEY = "token"


def build_token(job: JobRef, settings: OperatorSettings, *, input_name: str) -> str:
    """The same in every replica and process of the operator, so that a create can be sent again."""
    return derive_text(job, settings, input_name)


def derive_text(job: JobRef, settings: OperatorSettings, purpose: str) -> str:
    """64 hexadecimal digits that nobody without the key can know."""
    return hmac.new(settings.token_key, f"{job.uid} {purpose}".encode(), "sha256").hexdigest()


def find_secret_name(job: JobRef, settings: OperatorSettings, *, input_name: str) -> str:
    token = build_token(job, settings, input_name=input_name)
    return names.secret_name(job.name, job.uid, digest(token.encode()))


def build_secret(job: JobRef, settings: OperatorSettings, *, input_name: str) -> dict[str, Any]:
    """Without an owner: the executor makes the input its owner, with which garbage collection deletes it. The operator
    needs no right to delete Secrets."""
    metadata = build_metadata(job, find_secret_name(job, settings, input_name=input_name))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {key: value for key, value in metadata.items() if key != "ownerReferences"},
        "type": "Opaque",
        "immutable": True,
        "stringData": {TOKEN_KEY: build_token(job, settings, input_name=input_name)},
    }
