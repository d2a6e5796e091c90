"""Digests that name immutable objects."""

from __future__ import annotations

import hashlib
from typing import Mapping

# 128 bits: nobody finds other content for a digest.
CHARS = 32


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:CHARS]


def digest_files(files: Mapping[str, bytes]) -> str:
    """Returns the digest of files by name, in any order."""
    return digest("".join(f"{digest(content)} {name}\n" for name, content in sorted(files.items())).encode())
