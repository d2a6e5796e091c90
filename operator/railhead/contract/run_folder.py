"""Names in a run's folder that both the driver and a reader outside of the job's pods know."""

from __future__ import annotations

import json
import re
from typing import FrozenSet

OWN_FOLDER = ".railhead"  # in the run's folder; Ray never looks there
EMPTY = f"{OWN_FOLDER}/empty-checkpoints.json"  # a list of the checkpoints that had no files when they were committed
RECORD = f"{OWN_FOLDER}/run.json"  # `contract.run_record`
LOGS = f"{OWN_FOLDER}/logs"  # of all attempts, each in its folder


def parse_empty(data: bytes) -> FrozenSet[str]:
    """Returns the names in `EMPTY`; none if it is absent, which is no data, or damaged."""
    try:
        return frozenset(map(str, json.loads(data or b"[]")))
    except (ValueError, TypeError):
        return frozenset()


def name_attempt(uid: str, attempt: int) -> str:
    """Returns the name of the folder with the logs of one attempt; `uid`: of the TrainJob."""
    return f"{shorten_uid(uid)}-{attempt}"


def shorten_uid(uid: str) -> str:
    return re.sub("[^0-9a-z]", "", uid)[:8]


def name_fit(run_name: str, number: int) -> str:
    """Returns the name of the run of a script's fit() of this number, from 1; `run_name` is the job's."""
    if number == 1:
        return run_name
    return f"{run_name}-fit-{number}"


def is_of_job(name: str, run_name: str) -> bool:
    """Returns whether `name_fit` gives this name."""
    return re.fullmatch(re.escape(run_name) + r"(-fit-\d+)?", name) is not None
