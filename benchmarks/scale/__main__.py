"""How fast operators create the pods of many jobs, what many jobs cost them, and what reports cost.

    python -m benchmarks.scale --jobs 200 --workers 3 --rounds 3
    python -m benchmarks.scale --operator other.yaml --operator railhead.yaml
    python -m benchmarks.scale --present 100 1000 10000
    python -m benchmarks.scale --reporting 200
    python -m benchmarks.scale --fairness 200
    python -m benchmarks.scale --cluster --jobs 200

Each turn has an API server of its own. Prints a table of medians and writes the figures as JSON.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.command import run_program
from benchmarks.scale.modes import bench, echo
from benchmarks.scale.plots import draw
from benchmarks.scale.record import Machine, read_record, write_record
from benchmarks.scale.subject import OURS, Subject, load_subject


def run(subjects: Sequence[Subject], options: argparse.Namespace) -> int:
    machine = Machine.read()
    result = bench(subjects, options)
    print(f"{result.mode}, jobs of 1 + {options.workers}, medians of {options.rounds}; {machine.describe()}")
    print("\n".join(result.table))
    file = options.json or (options.plots and options.plots / f"{result.mode}.json")
    if file:
        write_record(file, mode=result.mode, machine=machine, turns=result.turns)
    if options.plots:
        for path in draw([read_record(file)], options.plots):
            echo(str(path))
    return 0


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
    add("--plots", type=Path, metavar="FOLDER", help="where plots go, and the figures too unless --json names a file")
    group = parser.add_argument_group("jobs that are present, and silent")
    add = group.add_argument
    add("--present", type=int, nargs="+", metavar="JOBS", help="how many, for instance 100 1000 10000")
    add("--running", type=float, default=10, metavar="PERCENT", help="that run (default: %(default)s)")
    add("--suspended", type=float, default=45, metavar="PERCENT", help="the others are finished (default: %(default)s)")
    add("--events", type=int, default=500, help="changes of jobs, then of pods (default: %(default)s)")
    group = parser.add_argument_group("a whole cluster")
    add = group.add_argument
    add("--cluster", action="store_true", help="with scheduler, controller manager and nodes simulated by KWOK")
    add("--nodes", type=int, default=20, help="simulated nodes (default: %(default)s)")
    group = parser.add_argument_group("jobs that run, and report")
    add = group.add_argument
    add("--reporting", type=int, nargs="+", metavar="JOBS", help="how many, for instance 200")
    add("--every", type=float, default=0.5, metavar="SECONDS", help="a report (default: %(default)s)")
    add("--commit-per-report", action="store_true", help="each report has a new checkpoint, instead of one a minute")
    add("--patient", action="store_true", help="reports with new metrics only wait as long as the endpoint asks for")
    add("--seconds", type=float, default=120, help="how long is measured (default: %(default)s)")
    group = parser.add_argument_group("small jobs, without and beside three bad ones")
    add = group.add_argument
    add("--fairness", type=int, nargs="+", metavar="JOBS", help="how many, for instance 200")
    add("--gang", type=int, default=4000, help="workers of the large one (default: %(default)s)")
    return parser


def main() -> int:
    options = build_parser().parse_args()
    subjects = [read_subject(text) for text in options.operator or [str(OURS)]]
    return run_program("bench-scale", partial(run, subjects, options))


def read_subject(text: str) -> Subject:
    path, name, packages = [*text.split(","), "", ""][:3]
    return load_subject(Path(path), name=name, packages=packages)


if __name__ == "__main__":
    sys.exit(main())
