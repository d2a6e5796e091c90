"""`make bench-head-size`: memory and processor time of a job's head pod, by the number of its workers.

TrainJobs of several sizes run in turn on a local cluster, with one worker in each pod, so that every
pod is a real Ray node. Prints the head's processes at each size and a line through the totals.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import linear_regression
from typing import Any

from benchmarks.command import run_program, start_session
from benchmarks.loss import Notes, applied, find_head
from benchmarks.machine import list_tree, read_used
from railhead.cli.local import TimedConsole
from railhead.local.session import Capacity, Session

CODE = Path(__file__).with_name("idle.py")
SIZES = (2, 8, 16, 32)
START_SECONDS = 900.0  # dozens of Ray nodes that start at once on few processors
STEPS_BEFORE = 3
WINDOW_SECONDS = 30.0  # over which processor time is measured
MIB = 2**20


@dataclass(frozen=True)
class Process:
    """One process of the head pod. Bytes; `anonymous` is what the kernel cannot reclaim."""

    title: str
    anonymous: int
    resident: int
    cpu: float


@dataclass(frozen=True)
class Head:
    """The head pod of a job that trains; `cpu` is a share of one processor."""

    workers: int
    processes: Sequence[Process]

    @property
    def anonymous(self) -> int:
        return sum(each.anonymous for each in self.processes)

    @property
    def resident(self) -> int:
        return sum(each.resident for each in self.processes)

    @property
    def cpu(self) -> float:
        return sum(each.cpu for each in self.processes)


def build_spec(storage: Path, *, workers: int, framework: str, seconds: float) -> dict[str, Any]:
    return {
        "image": "railhead/examples:0.1.0",
        "trainer": {
            "framework": framework,
            "trainFunc": "idle:train_func",
            "trainLoopConfig": {"notes": str(storage / "notes"), "seconds": seconds},
            **({"backend": {"name": "gloo"}} if framework == "Torch" else {}),
        },
        "source": {"inline": {"idle.py": CODE.read_text()}},
        "scaling": {"numWorkers": workers, "resourcesPerWorker": {"cpu": "100m", "memory": "256Mi"}},
        "worker": {"objectStore": "80Mi", "sharedMemory": "64Mi"},
        "run": {"storagePath": str(storage)},
        "suspendGraceSeconds": 0,  # there is no checkpoint to wait for
        "env": [{"name": "RAY_worker_niceness", "value": "0"}],  # ranks start no later than the other processes
    }


def measure(session: Session, *, workers: int, framework: str, seconds: float) -> Head:
    storage = session.folder / f"{framework.lower()}-{workers}"
    storage.mkdir()
    spec = build_spec(storage, workers=workers, framework=framework, seconds=seconds)
    with applied(session, storage, spec) as (kubectl, name):
        Notes(storage / "notes").wait_for(workers, steps=STEPS_BEFORE, after=0.0, seconds=START_SECONDS)
        entry_point = find_head(kubectl, name)
        before = {pid: read_used(pid) for pid in list_tree(entry_point)}
        began = time.monotonic()
        time.sleep(WINDOW_SECONDS)
        passed = time.monotonic() - began
        found = [
            read_process(pid, cpu=(read_used(pid) - before.get(pid, 0.0)) / passed) for pid in list_tree(entry_point)
        ]
        return Head(workers, [each for each in found if each is not None])


def read_process(pid: int, *, cpu: float) -> Process | None:
    """None if it has ended."""
    folder = Path("/proc", str(pid))
    try:
        arguments = (folder / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
        memory = dict(re.findall(r"^(\w+): +(\d+) kB$", (folder / "smaps_rollup").read_text(), re.MULTILINE))
    except OSError:
        return None
    return Process(find_title(arguments), int(memory["Anonymous"]) * 1024, int(memory["Rss"]) * 1024, cpu)


def find_title(arguments: Sequence[str]) -> str:
    """What the process is: the title that it set, its program, or Python's script and its first argument."""
    program = os.path.basename(arguments[0])
    if not program.startswith("python"):
        return program.split()[0]
    words = [os.path.basename(each) for each in arguments[1:] if not each.startswith("-")]
    return " ".join(words[:2])


def describe(heads: Sequence[Head]) -> list[str]:
    """A table by process, in MiB of anonymous memory, then the totals and their lines."""
    lines = [f"{'MiB that cannot be reclaimed':40}" + "".join(f"{head.workers:>9}" for head in heads)]
    for title in dict.fromkeys(process.title for head in heads for process in head.processes):
        sums = [sum(p.anonymous for p in head.processes if p.title == title) for head in heads]
        lines.append(f"{title[:40]:40}" + "".join(f"{each / MIB:9.0f}" for each in sums))
    totals: Mapping[str, list[float]] = {
        "all, MiB": [head.anonymous / MIB for head in heads],
        "all with shared pages, MiB": [head.resident / MIB for head in heads],
        "all, processor time in % of one": [100 * head.cpu for head in heads],
    }
    for name, values in totals.items():
        lines.append(f"{name:40}" + "".join(f"{each:9.0f}" for each in values) + fit(heads, values))
    return lines


def fit(heads: Sequence[Head], values: Sequence[float]) -> str:
    """The line through them, as text."""
    if len(heads) < 2:
        return ""
    slope, intercept = linear_regression([head.workers for head in heads], values)
    return f"   {intercept:.0f} + {slope:.2f} x workers"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-head-size", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=SIZES, help="sizes (default: %(default)s)")
    parser.add_argument("--framework", choices=("Python", "Torch"), default="Python", help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="between a rank's reports (default: %(default)s)")
    options = parser.parse_args()
    return run_program("bench-head-size", partial(bench, options))


def bench(options: argparse.Namespace) -> int:
    console = TimedConsole()
    heads: list[Head] = []
    with start_session(console, Capacity(cpus=1000, memory=10 << 40)) as session:
        for workers in options.workers:
            heads.append(measure(session, workers=workers, framework=options.framework, seconds=options.seconds))
            console.echo("\n".join(describe(heads)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
