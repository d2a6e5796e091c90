"""`make test-all [PARTS="e2e fuzz"]`: all tests in named parts, each of less than half an hour on two processors.

Prints the seconds of each part when it ends, and of all parts at the end, also after a failure or an interruption;
exits 1 if a part failed. The slow tests of a folder are one or more parts, so that no test runs in two of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.e2e_node import find_obstacle
from tools.ray_matrix import OLDER

PROJECT = Path(__file__).resolve().parents[1]
MOST_SECONDS = 1800
# Two processes, since most parts wait for a cluster or for Ray; the others have one for each processor.
_PYTEST = (sys.executable, "-m", "pytest", "-q", "--durations=5", "--dist", "worksteal", "-n", "2")
_EACH_PROCESSOR = ("-n", "auto")
_HAS_NODE = find_obstacle() is None
_ON_NODE = "node or reading"
_SLOW = (*_PYTEST, "-m", f"slow and not ({_ON_NODE})" if _HAS_NODE else "slow")
_EXAMPLES = "tests/e2e/test_examples.py"
_KILLS = ("tests/e2e/test_kills.py", "tests/e2e/test_survival.py", "tests/e2e/test_world.py")
_SCHEDULES = "tests/model/test_schedules.py"
_MANY = {"RAILHEAD_SCHEDULES": "25000"}  # with one operator, with two, and a tenth of them with the world's actors
_FAULTS = "single_fault or requests_that_hang"
_API = (*_PYTEST, "tests/api", "--ignore=tests/api/test_follow_logs.py")
_MAKE = ("make", "--no-print-directory")


@dataclass(frozen=True)
class Part:
    """Tests that one command runs, with variables for its environment."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


# `test` has Ray's newest version, so `matrix` has only the older ones. `node` has the tests that may differ on a real
# kubelet; the other parts have them, in local mode, only where no node can be started.
PARTS: Mapping[str, Part] = {
    "test": Part((*_MAKE, "test")),
    "unit": Part((*_SLOW, "tests/unit")),
    "fuzz": Part((*_SLOW, *_EACH_PROCESSOR, "tests/fuzz", "tests/api")),
    "properties": Part((*_PYTEST, *_EACH_PROCESSOR, "tests/unit", "-m", "hypothesis"), {"RAILHEAD_EXAMPLES": "600"}),
    "chart": Part((*_SLOW, "tests/chart")),
    "ui": Part((*_SLOW, "tests/ui")),
    "schedules": Part((*_PYTEST, *_EACH_PROCESSOR, _SCHEDULES, "-k", "1-even or 1-odd"), _MANY),
    "two-operators": Part((*_PYTEST, *_EACH_PROCESSOR, _SCHEDULES, "-k", "2-even"), _MANY),
    "two-operators-2": Part((*_PYTEST, *_EACH_PROCESSOR, _SCHEDULES, "-k", "2-odd"), _MANY),
    "world": Part(
        (*_PYTEST, *_EACH_PROCESSOR, "tests/model", f"--ignore={_SCHEDULES}"), {"RAILHEAD_FAULTS": "all", **_MANY}
    ),
    "operator": Part((*_SLOW, "tests/operator", "-k", f"not ({_FAULTS})")),
    "faults": Part((*_SLOW, "tests/operator", "-k", _FAULTS)),
    "local": Part((*_SLOW, "tests/local")),
    "ray": Part((*_SLOW, "tests/ray")),
    "examples": Part((*_SLOW, "tests/examples", _EXAMPLES)),
    "kills": Part((*_SLOW, *_KILLS)),
    "e2e": Part((*_SLOW, "tests/e2e", "tests/install", *(f"--ignore={file}" for file in (_EXAMPLES, *_KILLS)))),
    "older-kubernetes": Part((*_API, "tests/chart/test_grid.py", "--kubernetes", "1.34")),
    "newer-kubernetes": Part((*_API, "tests/operator/test_gangs.py", "--kubernetes", "1.37")),
    "node": Part(
        (*_MAKE, "e2e-node", f"E2E_ARGS=-m '{_ON_NODE}'"), {"RAILHEAD_NODE_REQUIRED": "1"} if _HAS_NODE else {}
    ),
    "matrix": Part((sys.executable, "-m", "tools.ray_matrix", "--versions", *OLDER)),
}


@dataclass(frozen=True)
class Outcome:
    """How a part ended."""

    name: str
    seconds: float
    exit_code: int

    def __str__(self) -> str:
        result = "passed" if self.exit_code == 0 else f"FAILED (exit code {self.exit_code})"
        slow = f", more than {MOST_SECONDS} s: split it" if self.seconds > MOST_SECONDS else ""
        return f"{self.name:<17}{self.seconds:6.0f} s  {result}{slow}"


Run = Callable[[Part], int]


def run_part(part: Part) -> int:
    """Returns the exit code of its command."""
    return subprocess.run(part.command, cwd=PROJECT, env={**os.environ, **part.variables}, check=False).returncode


def run_parts(names: Sequence[str], *, run: Run = run_part, clock: Callable[[], float] = time.monotonic) -> int:
    """Runs the parts one after the other, the later ones also when an earlier one fails; returns the exit code."""
    outcomes: list[Outcome] = []
    try:
        for name in names:
            echo(f"part {name}")
            began = clock()
            code = run(PARTS[name])
            outcomes.append(Outcome(name, clock() - began, code))
            echo(str(outcomes[-1]))
    finally:
        echo("all parts" if len(outcomes) == len(names) else f"{len(outcomes)} of {len(names)} parts")
        for outcome in outcomes:
            print(f"   {outcome}", flush=True)
        print(f"   {'total':<17}{sum(outcome.seconds for outcome in outcomes):6.0f} s", flush=True)
    return 0 if all(outcome.exit_code == 0 for outcome in outcomes) else 1


def echo(text: str) -> None:
    print(f"== {text}", flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    names = parser.parse_args(arguments).parts or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    try:
        return run_parts(names)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
