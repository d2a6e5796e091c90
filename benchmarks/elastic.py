"""`make bench-elastic`: from the loss of a worker to training with one fewer, as a TrainJob and with Ray's own policy.

Both on this machine, in turn, beside the same idling control plane: the same elastic
ScalingConfig, the same settings of Ray, the same training, and the same SIGKILL of all
processes of one Ray node. By hand Ray's own failure and scaling policies decide. Exit code
0 only if the ratio of the medians is within the bound.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.by_hand import DRIVER, HandStarted, Script
from benchmarks.command import run_command, start_session
from benchmarks.machine import wait_until_quiet
from railhead.api.job import parse_spec
from railhead.cli.local_options import Console
from railhead.driver.node.process import find_descendants, read_parents
from railhead.local.install import Kubectl
from railhead.local.node.addresses import AddressPool
from railhead.local.session import Session

BOUND = 1.3
CODE = Path(__file__).with_name("steps.py")
WORKERS = 2
STEPS_BEFORE = 5  # with all workers, before one is lost
START_SECONDS, LOSS_SECONDS = 120.0, 180.0
APPLIED, BY_HAND = "TrainJob", "by hand"


def build_spec(storage: Path) -> dict[str, Any]:
    return {
        "image": "railhead/examples:0.1.0",
        "trainer": {
            "trainFunc": "steps:train_func",
            "trainLoopConfig": {"notes": str(storage / "notes"), "seconds": 0.2},
            "backend": {"name": "gloo"},
        },
        "source": {"inline": {"steps.py": CODE.read_text()}},
        "scaling": {"minWorkers": 1, "maxWorkers": WORKERS, "resourcesPerWorker": {"cpu": "500m", "memory": "1Gi"}},
        "run": {"storagePath": str(storage), "checkpoint": {"numToKeep": 2}, "failure": {"maxFailures": 10}},
        "head": {"resources": {"cpu": "500m", "memory": "3Gi"}},
    }


class Notes:
    """What rank 0 has written down."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def wait_for(self, workers: int, *, steps: int, after: float, seconds: float) -> float:
        """When the `steps`-th step of so many workers after a moment began. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            times = [note["time"] for note in self._read() if note["workers"] == workers and note["time"] > after]
            if len(times) >= steps:
                return float(times[steps - 1])
            time.sleep(0.05)
        raise TimeoutError(f"no {steps} steps with {workers} workers within {seconds:.0f} s")

    def _read(self) -> list[dict[str, Any]]:
        lines = self._file.read_text().split("\n")[:-1] if self._file.exists() else []
        return [json.loads(line) for line in lines]


def measure_loss(notes: Notes, find_victim: Callable[[], str]) -> float:
    """Seconds from the SIGKILL of a Ray node, by its address, to the first step of the smaller group."""
    notes.wait_for(WORKERS, steps=STEPS_BEFORE, after=0.0, seconds=START_SECONDS)
    address = find_victim()
    lost_at = time.time()
    kill_node(address)
    return notes.wait_for(WORKERS - 1, steps=1, after=lost_at, seconds=LOSS_SECONDS) - lost_at


def kill_node(address: str) -> None:
    """All processes of `ray start` of this node at once, as when its machine is lost."""
    parents = read_parents()
    [start] = [pid for pid in parents if _is_ray_start(pid, address)]
    for pid in (start, *find_descendants(start, parents)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _is_ray_start(pid: int, address: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return "start" in words and f"--node-ip-address={address}" in words


class Bench:
    """Both ways beside one session; the order changes from round to round."""

    def __init__(self, session: Session, console: Console) -> None:
        self._session = session
        self._console = console
        self._pool = AddressPool()
        self._ways = {APPLIED: self._run_applied, BY_HAND: self._run_by_hand}
        self.seconds: dict[str, list[float]] = {what: [] for what in self._ways}

    def run_rounds(self, wanted: int) -> None:
        for number in range(wanted):
            for what in sorted(self._ways, reverse=number % 2 == 0):
                wait_until_quiet()
                storage = self._session.folder / f"{what.replace(' ', '-').lower()}-{number}"
                storage.mkdir()
                seconds = self._ways[what](storage)
                self.seconds[what].append(seconds)
                self._console.say(f"round {number + 1}, {what}: {seconds:.2f} s")

    def _run_by_hand(self, storage: Path) -> float:
        spec = parse_spec(build_spec(storage))
        with HandStarted(storage.name, self._pool, storage=storage, script=Script(spec, CODE, DRIVER)) as hand:
            hand.start()
            try:
                return measure_loss(Notes(storage / "notes"), lambda: hand.workers[-1].ip)
            except TimeoutError as error:
                raise TimeoutError(f"{error}:\n{hand.read_log()[-3000:]}") from None

    def _run_applied(self, storage: Path) -> float:
        kubectl = Kubectl(self._session.kubectl, self._session.kubeconfig)
        name = storage.name
        job = {
            "apiVersion": "railhead.dev/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": name},
            "spec": build_spec(storage),
        }
        kubectl("apply", "-f", "-", stdin=json.dumps(job))
        try:
            return measure_loss(Notes(storage / "notes"), lambda: _find_last_worker(kubectl, name))
        finally:
            _each_node(kubectl, "uncordon")
            kubectl("delete", "trainjobs.railhead.dev", name, "--wait=true", "--timeout=50s")


def _find_last_worker(kubectl: Kubectl, job: str) -> str:
    """Its address. No pod can take its place: else the replacement may be there before the smaller group is."""
    _each_node(kubectl, "cordon")
    pods = json.loads(kubectl("get", "pods", "-l", f"railhead.dev/job-name={job}", "-o", "json"))["items"]
    workers = sorted((p["metadata"]["name"], p["status"]["podIP"]) for p in pods if "-w" in p["metadata"]["name"])
    return str(workers[-1][1])


def _each_node(kubectl: Kubectl, verb: str) -> None:
    kubectl(verb, "-l", "kubernetes.io/os=linux")


def bench(rounds: int, bound: float) -> int:
    console = Console()
    with start_session(console) as session:
        bench = Bench(session, console)
        bench.run_rounds(rounds)
    applied, by_hand = (median(bench.seconds[what]) for what in (APPLIED, BY_HAND))
    ratio = applied / by_hand
    print(f"\nfrom the loss of a worker to training with fewer, median of {rounds}:")
    print(f"TrainJob {applied:.2f} s, by hand {by_hand:.2f} s, ratio {ratio:.3f}; the bound is {bound}")
    return 0 if ratio <= bound else 1


if __name__ == "__main__":
    sys.exit(run_command("bench-elastic", bench, description=__doc__, bound=BOUND))
