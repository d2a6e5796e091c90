"""`make bench-data`: how fast workers read a dataset in a TrainJob, and on a Ray cluster started by hand.

Both on this machine, in turn, with the same code, files and Ray settings. Exit code 0 only
if the TrainJob's median rate is at least BOUND times the other.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.applied import applied_manifest
from benchmarks.by_hand import HandStarted, Script
from benchmarks.command import find_folder, run_command, start_session
from benchmarks.machine import Meter, wait_until_quiet
from benchmarks.run import DISTURBED, LIMIT_SECONDS, RunFailed
from benchmarks.turns import APPLIED, BY_HAND, alternate
from benchmarks.watch import Watch
from railhead.api.parsed_spec import parse_spec
from railhead.cli.local import TimedConsole
from railhead.local.addresses import AddressPool
from railhead.local.session import Session

BOUND = 0.95
FILES, ROWS, COLUMNS = 4, 1_200_000, 16
ROW_BYTES = 8 + 4 * COLUMNS
CODE = Path(__file__).with_name("data_rows.py")
DRIVER = Path(__file__).with_name("data_driver.py")


def write_files(folder: Path) -> None:
    """A few hundred MB of parquet, the same each time; kept for the next run."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    for number in range(FILES):
        values = {f"x{n}": chance.random(ROWS, dtype=np.float32) for n in range(COLUMNS)}
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        path = folder / f"{number}.parquet"
        if not path.exists():
            pq.write_table(
                pa.table({"id": ids, **values}), f"{path}.part", row_group_size=200_000, use_dictionary=False
            )
            os.replace(f"{path}.part", path)


def build_job(name: str, *, data: Path, storage: Path) -> dict[str, Any]:
    return {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "image": "railhead/examples:0.1.0",
            "trainer": {
                "framework": "Python",
                "trainFunc": "data_rows:train_func",
                "trainLoopConfig": {"epochs": 4, "batch_size": 4096},
            },
            "datasets": {"train": {"format": "parquet", "uri": str(data)}},
            "source": {"inline": {CODE.name: CODE.read_text()}},
            "scaling": {"numWorkers": 2},
            "run": {"name": name, "storagePath": str(storage)},
        },
    }


class Bench:
    """Both ways next to one session; the order changes from round to round."""

    def __init__(self, session: Session, watch: Watch, *, data: Path, echo: Any) -> None:
        self._session, self._watch, self._data, self._echo = session, watch, data, echo
        self._pool = AddressPool()
        self._storage = session.folder / "runs"
        self.rates: dict[str, list[float]] = {APPLIED: [], BY_HAND: []}
        self.is_disturbed = False

    def run_rounds(self, count: int) -> None:
        """Round 0 only warms up the page cache and Python's bytecode files."""
        ways = {APPLIED: self._run_applied, BY_HAND: self._run_by_hand}
        for number, what in alternate(ways, count + 1):
            wait_until_quiet()
            with Meter() as meter:
                rate = ways[what](f"data-{number}")
            self._echo(
                f"round {number}, {what}: {rate:,.0f} rows/s, {rate * ROW_BYTES / 1e6:.0f} MB/s; "
                f"other processes used {100 * meter.share_of_others:.0f} % of the processors"
            )
            if number:
                self.rates[what].append(rate)
                self.is_disturbed |= meter.share_of_others > DISTURBED

    def _run_applied(self, name: str) -> float:
        manifest = yaml.safe_dump(build_job(name, data=self._data, storage=self._storage))
        with applied_manifest(self._session, name, manifest):
            end = self._watch.wait_for(name, "Succeeded", "Failed", seconds=LIMIT_SECONDS)
            if end.phase != "Succeeded":
                raise RunFailed(f"{name} failed: {end.object['status'].get('failure')}")
            return float(end.object["status"]["progress"]["metrics"]["rate"])

    def _run_by_hand(self, name: str) -> float:
        spec = parse_spec(build_job(name, data=self._data, storage=self._storage)["spec"])
        script = Script(spec, CODE, DRIVER, {"data": str(self._data)})
        with HandStarted(name, self._pool, storage=self._storage / "by-hand", script=script) as hand:
            _, _, output = hand.run_driver()
        [rate] = re.findall(r"^rate ([\d.]+)$", output, re.MULTILINE)
        return float(rate)


def bench(rounds: int, bound: float) -> int:
    console = TimedConsole()
    data = find_folder() / f"data-{FILES}-{ROWS}-{COLUMNS}"
    write_files(data)
    with start_session(console) as session, Watch(str(session.kubeconfig)) as watch:
        measured = Bench(session, watch, data=data, echo=console.echo)
        console.echo(f"one warm-up round, then {rounds} that count; load {os.getloadavg()[0]:.2f}")
        measured.run_rounds(rounds)
    mine, theirs = (median(measured.rates[what]) for what in (APPLIED, BY_HAND))
    is_within = mine >= bound * theirs
    for what, rates in measured.rates.items():
        listed = ", ".join(f"{rate / 1e3:,.0f}" for rate in rates)
        print(f"{what:8}: median {median(rates) / 1e3:,.0f} thousand rows/s of {len(rates)} ({listed})")
    print(f"ratio of the medians {mine / theirs:.3f}, which {'is within' if is_within else 'MISSES'} {bound:g}")
    if measured.is_disturbed:
        print("other processes used this machine meanwhile: the figures are unreliable")
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(run_command("bench-data", bench, description=__doc__, bound=BOUND))
