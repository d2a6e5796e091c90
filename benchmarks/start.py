"""`make bench-start`: how long a small job takes as a TrainJob, and on a Ray cluster started by hand.

All on this machine, in turn, next to the same idle control plane; by hand with settings for speed, and
with Ray's defaults. Exit code 0 only if the ratio to the fast settings is within the bound.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.applied import run_applied
from benchmarks.by_hand import HandStarted
from benchmarks.by_hand_settings import RAYS_DEFAULTS, TUNED, HandSettings
from benchmarks.command import run_command, start_session
from benchmarks.machine import Meter, read_processes, wait_until_quiet
from benchmarks.run import Run, count_undisturbed, select_undisturbed
from benchmarks.table import describe_milestones, describe_plain, describe_run, describe_verdict
from benchmarks.turns import alternate
from benchmarks.watch import Watch
from railhead.cli.local import TimedConsole
from railhead.local.addresses import AddressPool
from railhead.local.session import Session

BOUND = 1.15
MOST_ROUNDS = 3  # for each one that is wanted, on a shared machine
APPLIED, BY_HAND, DEFAULTS = "kubectl apply", "by hand", "by hand, Ray's defaults"


class Bench:
    """All ways of starting next to one session; the order changes from round to round."""

    def __init__(self, session: Session, watch: Watch, console: TimedConsole) -> None:
        self._session = session
        self._watch = watch
        self._console = console
        self._pool = AddressPool()
        self._ways: dict[str, Callable[[int], Run]] = {
            APPLIED: self._run_applied,
            BY_HAND: partial(self._run_by_hand, settings=TUNED),
            DEFAULTS: partial(self._run_by_hand, settings=RAYS_DEFAULTS),
        }
        self.runs: dict[str, list[Run]] = {what: [] for what in self._ways}

    def run_rounds(self, wanted: int) -> None:
        """Until each way has as many undisturbed runs as wanted, or a limit is reached. Round 0 only warms up."""
        for number, what in alternate(self._ways, 1 + MOST_ROUNDS * wanted):
            if count_undisturbed(self.runs[what]) < wanted:
                run = self._measure(what, number)
                self.runs[what] += [run] if number else []

    def _run_applied(self, number: int) -> Run:
        return run_applied(self._session, self._watch, name=f"digits-{number}")

    def _run_by_hand(self, number: int, *, settings: HandSettings) -> Run:
        storage = self._session.folder / ("by-hand" if settings is TUNED else "defaults")
        with HandStarted(f"by-hand-{number}", self._pool, storage=storage, settings=settings) as hand:
            return hand.run()

    def _measure(self, what: str, number: int) -> Run:
        processes = self._session.state().processes
        wait_until_quiet()
        before = read_processes(processes)
        with Meter() as meter:
            run = self._ways[what](number)
        run = replace(run, share_of_others=meter.share_of_others)
        parts = {name: used - before.get(name, 0.0) for name, used in read_processes(processes).items()}
        self._console.echo(f"round {number}, {what}: {describe_run(run, ours=meter.ours, parts=parts)}")
        return run


def bench(rounds: int, bound: float) -> int:
    console = TimedConsole()
    with start_session(console) as session, Watch(str(session.kubeconfig)) as watch:
        bench = Bench(session, watch, console)
        console.echo(f"one warm-up round, then {rounds} that count; load {os.getloadavg()[0]:.2f}")
        bench.run_rounds(rounds)
    applied, by_hand = (select_undisturbed(bench.runs[what], wanted=rounds) for what in (APPLIED, BY_HAND))
    print("\n".join(["", *describe_milestones(applied, by_hand), ""]))
    is_within, lines = describe_verdict(applied, by_hand, bound=bound)
    print("\n".join(lines))
    plain = select_undisturbed(bench.runs[DEFAULTS], wanted=rounds)
    print(describe_plain(applied, plain))
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(run_command("bench-start", bench, description=__doc__, bound=BOUND))
