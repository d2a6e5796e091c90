"""The commits of earlier attempts, from the job's status. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Commit:
    """What is known only at the time of the commit; `index` counts across all attempts."""

    index: int
    time: str
    attempt: int


def parse_known(text: str, *, run_uri: str) -> dict[str, Commit]:
    """The status's commits of earlier attempts in this run, by their folder's name; empty if malformed.

    `text`: `contract.environment.KNOWN_CHECKPOINTS`, where a script with several runs has the commits of all.
    """
    run = PurePosixPath(run_uri.partition("?")[0]).name
    try:
        return {
            str(known["name"]): Commit(int(known["index"]), str(known["time"]), int(known["attempt"]))
            for known in json.loads(text or "[]")
            if known["run"] == run
        }
    except (ValueError, KeyError, TypeError):
        return {}
