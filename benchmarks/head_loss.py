"""`make bench-head-loss`: from the SIGKILL of the head to training again, compared with the start of a fresh job.

The same TrainJob shows both: the time from `kubectl apply` to its first step, and, after some
steps, the time from the SIGKILL of all processes of its head pod to the first step of the
next attempt, which resumes from the last checkpoint. Exit code 0 only if the ratio of the
medians is within the bound.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from benchmarks.command import run_command, start_session
from benchmarks.loss import (
    BOUND,
    LOSS_SECONDS,
    START_SECONDS,
    STEPS_BEFORE,
    WORKERS,
    Notes,
    applied,
    build_spec,
    find_head,
    kill_tree,
)
from benchmarks.machine import wait_until_quiet
from benchmarks.turns import describe
from railhead.cli.local import TimedConsole
from railhead.local.session import Session

FRESH, AGAIN = "a fresh job", "after the loss of the head"


def measure(session: Session, storage: Path) -> tuple[float, float]:
    """Seconds to the first step of the first attempt, and of the second."""
    notes = Notes(storage / "notes")
    applied_at = time.time()
    with applied(session, storage, build_spec(storage, numWorkers=WORKERS)) as (kubectl, name):
        fresh = notes.wait_for(WORKERS, steps=1, after=0.0, seconds=START_SECONDS) - applied_at
        notes.wait_for(WORKERS, steps=STEPS_BEFORE, after=0.0, seconds=START_SECONDS)
        head = find_head(kubectl, name)
        lost_at = time.time()
        kill_tree(head)
        return fresh, notes.wait_for(WORKERS, steps=1, after=lost_at, seconds=LOSS_SECONDS) - lost_at


def bench(rounds: int, bound: float) -> int:
    console = TimedConsole()
    seconds: dict[str, list[float]] = {FRESH: [], AGAIN: []}
    with start_session(console) as session:
        for number in range(rounds):
            wait_until_quiet()
            storage = session.folder / f"head-loss-{number}"
            storage.mkdir()
            fresh, again = measure(session, storage)
            seconds[FRESH].append(fresh)
            seconds[AGAIN].append(again)
            summary = f"{FRESH} {fresh:.2f} s, {AGAIN} {again:.2f} s; load {os.getloadavg()[0]:.1f}"
            console.echo(f"round {number + 1}: {summary}")
    return describe("to the first step of training", seconds, of=AGAIN, beside=FRESH, bound=bound)


if __name__ == "__main__":
    sys.exit(run_command("bench-head-loss", bench, description=__doc__, bound=BOUND))
