"""Shared by all benchmarks: the program, and the local session that runs beside them."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tools.go_program import NotBuilt

from benchmarks.milestones import Incomplete
from benchmarks.run import RunFailed
from railhead.cli.local import TimedConsole, uninterrupted
from railhead.cli.main import interrupt_on_termination
from railhead.local import LocalError
from railhead.local.control_plane.binaries import resolve
from railhead.local.session import Capacity, Session, default_capacity


def find_folder() -> Path:
    """Where benchmarks keep what they write."""
    folder = Path(os.environ.get("RAILHEAD_BENCH_DIR") or Path.home() / ".railhead" / "bench")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def start_session(console: TimedConsole, capacity: Capacity | None = None) -> Iterator[Session]:
    """A local cluster for the benchmark only, completely removed afterwards."""
    binaries = resolve(console.echo)
    session = Session(Path(tempfile.mkdtemp(dir=find_folder(), prefix="run-")))
    try:
        session.up(capacity or default_capacity(), binaries=binaries, echo=console.echo, is_ours_only=True)
        yield session
    finally:
        with uninterrupted():
            session.down()
            shutil.rmtree(session.folder, ignore_errors=True)


def run_command(program: str, bench: Callable[[int, float], int], *, description: str | None, bound: float) -> int:
    """Runs a benchmark that compares; returns the exit code.

    `bench` receives the number of rounds that count and the bound of the ratio.
    """
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds that count (default: %(default)s)")
    parser.add_argument("--bound", type=float, default=bound, help="bound of the ratio (default: %(default)s)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return run_program(program, partial(bench, options.rounds, options.bound))


def run_program(program: str, bench: Callable[[], int]) -> int:
    """Runs any benchmark, with its arguments bound; returns the exit code. Ctrl-C and SIGTERM clean up first."""
    interrupt_on_termination()
    try:
        return bench()
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return 130
    except (LocalError, RunFailed, NotBuilt, Incomplete, TimeoutError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
