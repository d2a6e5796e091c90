"""`make bench-start`: how long a small job takes as a TrainJob, and on a Ray cluster started by hand.

Both on this machine, in turn, beside the same idling control plane. Exit code 0 only if the
ratio of the medians is within the bound.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.applied import run_applied
from benchmarks.by_hand import HandStarted
from benchmarks.machine import Meter, read_processes, wait_until_quiet
from benchmarks.milestones import Incomplete
from benchmarks.run import Run, RunFailed, count_undisturbed, select_undisturbed
from benchmarks.table import describe_milestones, describe_run, describe_verdict
from benchmarks.watch import Watch
from railhead.cli.local_options import Console, interrupt_on_termination, uninterrupted
from railhead.cli.main import KNOWN
from railhead.local.control_plane.binaries import resolve
from railhead.local.node.addresses import AddressPool
from railhead.local.session import Session, default_capacity

BOUND = 1.15
MOST_ROUNDS = 3  # for each that is wanted, on a machine that others use as well
APPLIED, BY_HAND = "kubectl apply", "by hand"


class Bench:
    """Both ways of starting beside one session; the order changes from round to round."""

    def __init__(self, session: Session, watch: Watch, console: Console) -> None:
        self._session = session
        self._watch = watch
        self._console = console
        self._pool = AddressPool()
        self._ways = {APPLIED: self._run_applied, BY_HAND: self._run_by_hand}
        self.runs: dict[str, list[Run]] = {what: [] for what in self._ways}

    def run_rounds(self, wanted: int) -> None:
        """Until each way has as many undisturbed runs as wanted, or a limit is met. Round 0 only warms up."""
        for number in range(1 + MOST_ROUNDS * wanted):
            for what in sorted(self._ways, reverse=number % 2 == 0):
                if count_undisturbed(self.runs[what]) < wanted:
                    run = self._measure(what, number)
                    self.runs[what] += [run] if number else []

    def _run_applied(self, number: int) -> Run:
        return run_applied(self._session, self._watch, name=f"digits-{number}")

    def _run_by_hand(self, number: int) -> Run:
        with HandStarted(f"by-hand-{number}", self._pool, storage=self._session.folder / "by-hand") as hand:
            return hand.run()

    def _measure(self, what: str, number: int) -> Run:
        processes = self._session.state().processes
        wait_until_quiet()
        before = read_processes(processes)
        with Meter() as meter:
            run = self._ways[what](number)
        run = replace(run, share_of_others=meter.share_of_others)
        parts = {name: used - before.get(name, 0.0) for name, used in read_processes(processes).items()}
        self._console.say(f"round {number}, {what}: {describe_run(run, ours=meter.ours, parts=parts)}")
        return run


def bench(*, rounds: int, bound: float) -> int:
    console = Console()
    base = Path(os.environ.get("RAILHEAD_BENCH_DIR") or Path.home() / ".railhead" / "bench")
    base.mkdir(parents=True, exist_ok=True)
    session = Session(Path(tempfile.mkdtemp(dir=base, prefix="run-")))
    binaries = resolve(console.say)
    try:
        session.up(default_capacity(), binaries=binaries, say=console.say, is_ours_only=True)
        with Watch(str(session.kubeconfig)) as watch:
            bench = Bench(session, watch, console)
            console.say(f"a round that warms up, then {rounds} that count; load {os.getloadavg()[0]:.2f}")
            bench.run_rounds(rounds)
    finally:
        with uninterrupted():
            session.down()
            shutil.rmtree(session.folder, ignore_errors=True)
    applied, by_hand = (select_undisturbed(bench.runs[what], wanted=rounds) for what in (APPLIED, BY_HAND))
    print("\n".join(["", *describe_milestones(applied, by_hand), ""]))
    is_within, lines = describe_verdict(applied, by_hand, bound=bound)
    print("\n".join(lines))
    return 0 if is_within else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="that count (default: %(default)s)")
    parser.add_argument("--bound", type=float, default=BOUND, help="of the ratio (default: %(default)s)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    interrupt_on_termination()
    try:
        return bench(rounds=options.rounds, bound=options.bound)
    except KeyboardInterrupt:
        print("interrupted; everything was ended", file=sys.stderr)
        return 130
    except (*KNOWN, RunFailed, Incomplete, TimeoutError) as error:
        print(f"bench-start: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
