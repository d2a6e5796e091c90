"""Seeded defects in planner and executor: each must be caught by a test. `make mutants` runs them all.

Each defect is injected into a copy of the tree, and the tests that must catch it run there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.seeded_defects import DEFECTS, Defect

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = Path("operator", "railhead")
TIMEOUT = 300.0  # seconds; without a defect the tests take a fraction of it


def find_failure(tests: Iterable[str], folder: Path, *, timeout: float, options: Iterable[str] = ()) -> str:
    """Why the tests do not pass, or an empty string. Raises ValueError when pytest could not run them."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=short", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder / "operator"), "RAILHEAD_SCHEDULES": "60"}
    pipes: dict[str, Any] = {"capture_output": True, "text": True}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, check=False, timeout=timeout, **pipes)
    except subprocess.TimeoutExpired:  # some defects make a job restart forever
        return f"no end within {timeout:.0f} s"
    if done.returncode not in (0, 1):
        raise ValueError(f"pytest exited with code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if done.returncode else ""


def is_caught(mutant: Defect, folder: Path) -> bool:
    """Raises ValueError if the defect no longer matches the code."""
    file = folder / PACKAGE / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.what}: {mutant.file} has its text {text.count(mutant.old)} times; adapt the mutant")
    file.write_text(text.replace(mutant.old, mutant.new))
    try:
        return bool(find_failure(mutant.tests, folder, timeout=TIMEOUT))
    finally:
        file.write_text(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the defect's name")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in DEFECTS if options.only in mutant.what]
    survivors = []
    with tempfile.TemporaryDirectory(prefix="railhead-mutants-") as name:
        folder = Path(name)
        for part in ("operator", "tests", "tools", "crds", "manifests", "charts", "pyproject.toml"):
            source = PROJECT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / part)
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        failure = find_failure(tests, folder, timeout=4 * TIMEOUT, options=("-n", "auto"))
        if failure:
            print(f"{failure}\nthe tests fail without any defect; fix that first", file=sys.stderr)
            return 1
        for mutant in chosen:
            began = time.monotonic()
            caught = is_caught(mutant, folder)
            print(
                f"{'caught  ' if caught else 'SURVIVED'} {time.monotonic() - began:6.1f} s  {mutant.what}", flush=True
            )
            survivors += [] if caught else [mutant.what]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} seeded defects are caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
