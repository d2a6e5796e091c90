"""How fast operators create the pods of many jobs, what many jobs cost them, and what reports cost.

    python -m benchmarks.scale --jobs 200 --workers 3 --rounds 3
    python -m benchmarks.scale --operator other.yaml --operator railhead.yaml
    python -m benchmarks.scale --present 100 1000 10000

Each turn has an API server of its own. Prints a table of medians and writes the figures as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.run import RunFailed
from benchmarks.scale import bare, present, reporting
from benchmarks.scale.api import Object
from benchmarks.scale.plane import start_plane
from benchmarks.scale.record import Machine, write_record
from benchmarks.scale.subject import OURS, Subject, load_subject
from railhead.cli.local_options import interrupt_on_termination
from railhead.cli.main import KNOWN
from railhead.local.control_plane.binaries import resolve

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Result:
    """Of all turns of one mode: a table, and the figures for the JSON file."""

    mode: str
    table: list[str]
    turns: Sequence[DataclassInstance]


def bench_bare(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    """All turns. The floor's pods are those of the first operator."""
    binaries, figures = resolve(echo), list[bare.Figures]()

    def report(turn: bare.Figures) -> None:
        echo(f"{turn.name}: {turn.pods} pods in {turn.seconds:.1f} s, CPU {turn.cpu_seconds:.1f} s")
        figures.append(turn)

    for _ in range(options.rounds):
        for jobs in options.jobs:
            pods: list[Object] = []
            for subject in subjects:
                with start_plane(binaries) as plane:
                    turn, found = asyncio.run(bare.run_jobs(plane, subject, jobs=jobs, workers=options.workers))
                pods = pods or found
                report(turn)
            with start_plane(binaries) as plane:
                report(asyncio.run(bare.run_floor(plane, pods, jobs=jobs)))
    return Result("bare", bare.describe(figures), figures)


def bench_present(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    binaries, figures = resolve(echo), list[present.Figures]()
    for _ in range(options.rounds):
        for jobs in options.present:
            mix = present.Mix.split(jobs, running=options.running, suspended=options.suspended)
            for subject in subjects:
                with start_plane(binaries) as plane:
                    run = present.run_present(plane, subject, mix=mix, workers=options.workers, events=options.events)
                    turn = asyncio.run(run)
                echo(
                    f"{turn.name}, {jobs} jobs: reconciled after {turn.start.reconciled:.1f} s, {turn.rss_peak:.0f} MiB"
                )
                figures.append(turn)
    return Result("present", present.describe(figures), figures)


def bench_reporting(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    binaries, figures = resolve(echo), list[reporting.Figures]()
    for _ in range(options.rounds):
        for jobs in options.reporting:
            for subject in subjects:
                with start_plane(binaries) as plane:
                    turn = asyncio.run(
                        reporting.run_reporting(
                            plane,
                            subject,
                            jobs=jobs,
                            workers=options.workers,
                            seconds=options.seconds,
                            commit_per_report=options.commit_per_report,
                        )
                    )
                echo(f"{turn.name}: {turn.status_writes:.1f} status writes/s, p99 of the lag {turn.lag_p99:.2f} s")
                figures.append(turn)
    return Result("reporting", reporting.describe(figures), figures)


def echo(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(subjects: Sequence[Subject], options: argparse.Namespace) -> None:
    machine = Machine.read()
    bench = bench_present if options.present else bench_reporting if options.reporting else bench_bare
    result = bench(subjects, options)
    print(f"{result.mode}, jobs of 1 + {options.workers}, medians of {options.rounds}; {machine.describe()}")
    print("\n".join(result.table))
    if options.json:
        write_record(options.json, mode=result.mode, machine=machine, turns=result.turns)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench-scale", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--jobs", type=int, nargs="+", default=[200], help="jobs that are created at once (default: 200)")
    add("--workers", type=int, default=3, help="workers of each (default: %(default)s)")
    add("--rounds", type=int, default=3, help="turns of each operator (default: %(default)s)")
    add(
        "--operator",
        action="append",
        metavar="FILE[,NAME,PACKAGES]",
        help="a file such as railhead.yaml; PACKAGES comes first on PYTHONPATH (default: this tree's operator)",
    )
    add("--json", type=Path, help="where the figures of all turns go")
    group = parser.add_argument_group("jobs that are present, and silent")
    add = group.add_argument
    add("--present", type=int, nargs="+", metavar="JOBS", help="how many, for instance 100 1000 10000")
    add("--running", type=float, default=10, metavar="PERCENT", help="that run (default: %(default)s)")
    add("--suspended", type=float, default=45, metavar="PERCENT", help="the others are finished (default: %(default)s)")
    add("--events", type=int, default=500, help="changes of jobs, then of pods (default: %(default)s)")
    group = parser.add_argument_group("jobs that run, and report twice a second")
    add = group.add_argument
    add("--reporting", type=int, nargs="+", metavar="JOBS", help="how many, for instance 200")
    add("--commit-per-report", action="store_true", help="each report has a new checkpoint, instead of one a minute")
    add("--seconds", type=float, default=120, help="how long is measured (default: %(default)s)")
    return parser


def main() -> int:
    options = build_parser().parse_args()
    interrupt_on_termination()
    try:
        run([read_subject(text) for text in options.operator or [str(OURS)]], options)
    except KeyboardInterrupt:
        echo("interrupted; everything was stopped")
        return 130
    except (*KNOWN, RunFailed) as error:
        echo(f"bench-scale: {error}")
        return 1
    return 0


def read_subject(text: str) -> Subject:
    path, name, packages = [*text.split(","), "", ""][:3]
    return load_subject(Path(path), name=name, packages=packages)


if __name__ == "__main__":
    sys.exit(main())
