"""Seeded defects in planner and executor: each must be caught by a test. `make mutants` runs them all.

Each defect is injected into a copy of the tree, and the tests that must catch it run there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import failure_causes
from tools.seeded_defects import DEFECTS, Defect

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = Path("operator", "railhead")
TIMEOUT = 300.0  # seconds; without a defect the tests take a fraction of it
ASSERTIONS = ("AssertionError", "Failed")  # the latter is of pytest.raises and pytest.fail


class BrokenDefect(ValueError):
    """The tests fail for another reason than the defect: what it puts in does not work at all."""


@dataclass(frozen=True)
class Failure:
    """Why tests fail: each exception, as the names of its class and that class's bases, and what pytest printed."""

    causes: list[list[str]]
    output: str


def find_failure(
    tests: Iterable[str], folder: Path, *, timeout: float, options: Iterable[str] = ("-p", failure_causes.__name__)
) -> Failure | None:
    """Runs the tests up to the first that fails; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=short", *options, *tests]
    path = os.pathsep.join((str(folder / "operator"), str(PROJECT)))
    with tempfile.NamedTemporaryFile("r", prefix="railhead-causes-") as causes:
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "RAILHEAD_SCHEDULES": "60",
            failure_causes.CAUSES: causes.name,
        }
        pipes: dict[str, Any] = {"capture_output": True, "text": True}
        try:
            done = subprocess.run(command, cwd=folder, env=environment, check=False, timeout=timeout, **pipes)
        except subprocess.TimeoutExpired as error:  # some defects make a job restart forever
            return Failure([[type(error).__name__]], f"no end within {timeout:.0f} s")
        return Failure([json.loads(line) for line in causes], done.stdout + done.stderr) if done.returncode else None


def is_caught(mutant: Defect, folder: Path, *, timeout: float = TIMEOUT) -> bool:
    """Raises BrokenDefect if the defect no longer matches the code, or fails for a reason that it does not name."""
    file = folder / PACKAGE / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        count = text.count(mutant.old)
        raise BrokenDefect(f"{mutant.what}: {mutant.file} has its text {count} times; adapt the defect")
    file.write_text(text.replace(mutant.old, mutant.new))
    try:
        failure = find_failure(mutant.tests, folder, timeout=timeout)
    finally:
        file.write_text(text)
    if failure is None:
        return False
    unnamed = [kinds[0] for kinds in failure.causes if not {*ASSERTIONS, *mutant.raises}.intersection(kinds)]
    if unnamed or not failure.causes:
        why = ", ".join(sorted(set(unnamed))) or "no exception"
        raise BrokenDefect(
            f"{mutant.what}: the tests fail with {why}; correct the defect, or name it in `raises`\n{failure.output}"
        )
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the defect's name")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in DEFECTS if options.only in mutant.what]
    with tempfile.TemporaryDirectory(prefix="railhead-mutants-") as name:
        folder = Path(name)
        for part in ("operator", "tests", "tools", "docs", "crds", "manifests", "charts", "pyproject.toml"):
            source = PROJECT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / part)
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        failure = find_failure(tests, folder, timeout=4 * TIMEOUT, options=("-n", "auto"))
        if failure is not None:
            print(f"{failure.output}\nthe tests fail without any defect; fix that first", file=sys.stderr)
            return 1
        results = [_try(mutant, folder) for mutant in chosen]
    print(f"{sum(results)} of {len(chosen)} seeded defects are caught")
    return 0 if all(results) else 1


def _try(mutant: Defect, folder: Path) -> bool:
    began, why = time.monotonic(), ""
    try:
        result = "caught" if is_caught(mutant, folder) else "SURVIVED"
    except BrokenDefect as error:
        result, why = "BROKEN", f"\n{error}"
    print(f"{result:8} {time.monotonic() - began:6.1f} s  {mutant.what}{why}", flush=True)
    return result == "caught"


if __name__ == "__main__":
    sys.exit(main())
