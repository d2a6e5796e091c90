"""How fast an operator creates the pods of many jobs, and at what cost, beside a plain client that creates only pods.

    python -m benchmarks.scale --jobs 200 --workers 3 --rounds 3
    python -m benchmarks.scale --operator other.yaml --operator railhead.yaml

Each turn has an API server of its own. Prints a table of medians and writes the figures as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks.command import find_folder
from benchmarks.machine import wait_until_quiet
from benchmarks.run import RunFailed
from benchmarks.scale.api import Object
from benchmarks.scale.subject import OURS, Subject, load_subject
from benchmarks.scale.turn import Figures, run_floor, run_jobs, start_plane
from railhead.cli.local_options import interrupt_on_termination
from railhead.cli.main import KNOWN
from railhead.local.control_plane.binaries import resolve


def bench(subjects: Sequence[Subject], *, jobs: int, workers: int, rounds: int) -> list[Figures]:
    """All turns. The floor's pods are those of the first operator."""
    binaries, figures = resolve(echo), []
    for number in range(1, rounds + 1):
        pods: list[Object] = []
        for subject in subjects:
            folder = Path(tempfile.mkdtemp(dir=find_folder(), prefix="scale-"))
            try:
                wait_until_quiet()
                with start_plane(folder, binaries) as plane:
                    turn, found = asyncio.run(run_jobs(plane, subject, jobs=jobs, workers=workers))
                pods = pods or found
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            figures.append(report(number, turn))
        folder = Path(tempfile.mkdtemp(dir=find_folder(), prefix="scale-"))
        try:
            wait_until_quiet()
            with start_plane(folder, binaries) as plane:
                figures.append(report(number, asyncio.run(run_floor(plane, pods, jobs=jobs))))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return figures


def report(number: int, turn: Figures) -> Figures:
    echo(f"round {number}, {turn.name}: {turn.pods} pods in {turn.seconds:.1f} s, CPU {turn.cpu_seconds:.1f} s")
    return turn


def describe(figures: Sequence[Figures]) -> list[str]:
    """A table of medians, then the requests per job of each operator."""
    names = list(dict.fromkeys(each.name for each in figures))
    by_name = {name: [each for each in figures if each.name == name] for name in names}
    floor = median(each.pods_per_second for each in by_name["floor"])
    lines = [
        f"{'':16}{'pods/s':>8}{'of floor':>10}{'CPU s':>8}{'ms/pod':>8}{'idle %':>8}{'RSS MiB: start, after, peak':>30}"
    ]
    for name, turns in by_name.items():
        rate, cpu = median(t.pods_per_second for t in turns), median(t.cpu_seconds for t in turns)
        memory = [median(each) for each in zip(*((t.rss_before, t.rss_after, t.rss_peak) for t in turns), strict=True)]
        lines.append(
            f"{name:16}{rate:8.0f}{rate / floor:10.2f}{cpu:8.1f}{1000 * cpu / turns[0].pods:8.2f}"
            f"{100 * median(t.idle_share for t in turns):8.2f}{'':6}" + "".join(f"{each:8.0f}" for each in memory)
        )
    for name, turns in by_name.items():
        if turns[-1].requests:
            counted = ", ".join(f"{what} {number:g}" for what, number in turns[-1].requests.items())
            lines.append(f"requests per job of {name}: {sum(turns[-1].requests.values()):.1f} ({counted})")
    return lines


def echo(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench-scale", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=200, help="jobs that are created at once (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="workers of each (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each operator (default: %(default)s)")
    parser.add_argument(
        "--operator",
        action="append",
        metavar="FILE[,NAME,PACKAGES]",
        help="a file such as railhead.yaml; PACKAGES comes first on PYTHONPATH (default: this tree's operator)",
    )
    parser.add_argument("--json", type=Path, help="where the figures of all turns go")
    options = parser.parse_args()
    interrupt_on_termination()
    try:
        subjects = [read_subject(text) for text in options.operator or [str(OURS)]]
        figures = bench(subjects, jobs=options.jobs, workers=options.workers, rounds=options.rounds)
    except KeyboardInterrupt:
        echo("interrupted; everything was stopped")
        return 130
    except (*KNOWN, RunFailed) as error:
        echo(f"bench-scale: {error}")
        return 1
    print(
        f"{options.jobs} jobs of 1 + {options.workers}, medians of {options.rounds}; Python {platform.python_version()}"
    )
    print("\n".join(describe(figures)))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in figures], indent=1))
    return 0


def read_subject(text: str) -> Subject:
    path, name, packages = [*text.split(","), "", ""][:3]
    return load_subject(Path(path), name=name, packages=packages)


if __name__ == "__main__":
    sys.exit(main())
