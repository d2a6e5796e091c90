"""What the status tells of the commits of earlier attempts. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Commit:
    """What only the moment of the commit tells; `index` counts over all attempts."""

    index: int
    time: str
    attempt: int


def parse_known(text: str) -> dict[str, Commit]:
    """What the status tells of earlier attempts (`contract.environment.KNOWN_CHECKPOINTS`); empty for nonsense."""
    try:
        return {
            str(known["name"]): Commit(int(known["index"]), str(known["time"]), int(known["attempt"]))
            for known in json.loads(text or "[]")
        }
    except (ValueError, KeyError, TypeError):
        return {}
