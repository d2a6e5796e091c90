"""`make bench-in-place`: from an error in train_func to training again, in the same pods, compared with a new attempt.

The same TrainJob twice, in turn: as it is, and with `run.failure.maxFailures: 0`, which leaves every
restart to the operator. Exit code 0 only if the ratio of the medians is within the bound.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.command import run_command, start_session
from benchmarks.loss import (
    LOSS_SECONDS,
    START_SECONDS,
    STEPS_BEFORE,
    WORKERS,
    Notes,
    applied,
    build_spec,
)
from benchmarks.steps import FAIL
from benchmarks.turns import TakesTurns, describe
from railhead.cli.local import TimedConsole
from railhead.local.session import Session

BOUND = 0.8
IN_PLACE, NEW_ATTEMPT = "in place", "a new attempt"


def measure(session: Session, storage: Path, *, is_in_place: bool) -> float:
    """Seconds from the error to the first step of the next group."""
    spec = build_spec(storage, numWorkers=WORKERS)
    spec["run"]["failure"] = {} if is_in_place else {"maxFailures": 0}
    notes = Notes(storage / "notes")
    with applied(session, storage, spec):
        notes.wait_for(WORKERS, steps=STEPS_BEFORE, after=0.0, seconds=START_SECONDS)
        failed_at = time.time()
        (storage / FAIL).touch()
        return notes.wait_for(WORKERS, steps=1, after=failed_at, seconds=LOSS_SECONDS) - failed_at


def bench(rounds: int, bound: float) -> int:
    console = TimedConsole()
    with start_session(console) as session:
        ways = {
            IN_PLACE: partial(measure, session, is_in_place=True),
            NEW_ATTEMPT: partial(measure, session, is_in_place=False),
        }
        turns = TakesTurns(session, console, ways)
        turns.run_rounds(rounds)
    what = "from an error in train_func to training again"
    return describe(what, turns.seconds, of=IN_PLACE, beside=NEW_ATTEMPT, bound=bound)


if __name__ == "__main__":
    sys.exit(run_command("bench-in-place", bench, description=__doc__, bound=BOUND))
