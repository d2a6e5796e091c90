"""Names in a run's folder that both the driver and a reader outside of the job's pods know."""

from __future__ import annotations

import re

OWN_FOLDER = ".railhead"  # in the run's folder; Ray never looks there
LOGS = f"{OWN_FOLDER}/logs"  # of all attempts, each in its folder


def name_attempt(uid: str, attempt: int) -> str:
    """Returns the name of the folder with the logs of one attempt; `uid`: of the TrainJob."""
    return f"{shorten_uid(uid)}-{attempt}"


def shorten_uid(uid: str) -> str:
    return re.sub("[^0-9a-z]", "", uid)[:8]
