"""The success of an attempt, in the run's folder: the head may vanish before the operator hears of it.

The job's next attempt believes the file, and does not train again. Anything else in its place counts as absent: half a
file, or one that another job with the same `run.name` has left.
"""

from __future__ import annotations

import contextlib
import json
from typing import Optional

from railhead.contract.outcome import Outcome
from railhead.driver.storage.fence import list_claims, look
from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder

OUTCOME = f"{OWN_FOLDER}/outcome.json"


def leave_outcome(folder: RunFolder, outcome: Outcome, *, uid: str, attempt: int, pod: str) -> None:
    """Only if this head has claimed the folder. Raises Fenced or JobRefused when the run now belongs to another."""
    for claim in list_claims(folder):
        if (claim.uid, claim.attempt, claim.pod) == (uid, attempt, pod):
            look(folder, claim)
            values = {"uid": uid, "attempt": attempt, "outcome": outcome.to_json()}
            folder.replace(OUTCOME, json.dumps(values).encode())


def read_success(folder: RunFolder, *, uid: str, attempt: int) -> Optional[Outcome]:
    """The outcome that an earlier attempt of this job has left, or None."""
    try:
        values = json.loads(folder.read(OUTCOME) or b"")
        is_ours = values["uid"] == uid and 0 < values["attempt"] < attempt
        outcome = Outcome.from_json(values["outcome"]) if is_ours else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return outcome if outcome is not None and outcome.has_succeeded else None


def forget_outcome(folder: RunFolder) -> None:
    """Call only behind the fence, by an attempt that is going to train."""
    with contextlib.suppress(OSError):  # nobody else believes it
        folder.delete(OUTCOME)
