"""The commits of earlier attempts, from the job's status. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Commit:
    """What is known only at the time of the commit; `index` counts across all attempts."""

    index: int
    time: str
    attempt: int


def parse_known(text: str) -> dict[str, Commit]:
    """The status's commits of earlier attempts (`contract.environment.KNOWN_CHECKPOINTS`); empty if malformed."""
    try:
        return {
            str(known["name"]): Commit(int(known["index"]), str(known["time"]), int(known["attempt"]))
            for known in json.loads(text or "[]")
        }
    except (ValueError, KeyError, TypeError):
        return {}
