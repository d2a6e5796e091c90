"""Shared by the loss benchmarks: a job that trains forever, the notes that it takes, and the loss of a node."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.applied import applied_manifest
from benchmarks.command import start_session
from benchmarks.machine import list_tree
from benchmarks.turns import APPLIED, BY_HAND, TakesTurns, describe
from railhead.cli.local import TimedConsole
from railhead.driver.container.pod_processes import read_process_table
from railhead.local.addresses import AddressPool
from railhead.local.install import Kubectl
from railhead.local.session import Session

BOUND = 1.3
CODE = Path(__file__).with_name("steps.py")
WORKERS = 2
STEPS_BEFORE = 5  # with all workers, before something is lost
START_SECONDS, LOSS_SECONDS = 120.0, 180.0


def build_spec(storage: Path, **scaling: int) -> dict[str, Any]:
    return {
        "image": "railhead/examples:0.1.0",
        "trainer": {
            "trainFunc": "steps:train_func",
            "trainLoopConfig": {"notes": str(storage / "notes"), "seconds": 0.2},
            "backend": {"name": "gloo"},
        },
        "source": {"inline": {"steps.py": CODE.read_text()}},
        "scaling": {**scaling, "resourcesPerWorker": {"cpu": "500m", "memory": "1Gi"}},
        "run": {"storagePath": str(storage), "checkpoint": {"numToKeep": 2}, "failure": {"maxFailures": 10}},
        "head": {"resources": {"cpu": "500m", "memory": "3Gi"}},
    }


class Notes:
    """The notes that rank 0 has taken."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def wait_for(self, workers: int, *, steps: int, after: float, seconds: float) -> float:
        """Start time of the `steps`-th step of a group of `workers` that started after `after`. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            times = [note["time"] for note in self._read() if note["workers"] == workers and note["began"] > after]
            if len(times) >= steps:
                return float(times[steps - 1])
            time.sleep(0.05)
        raise TimeoutError(f"no {steps} steps with {workers} workers within {seconds:.0f} s")

    def _read(self) -> list[dict[str, Any]]:
        lines = self._file.read_text().split("\n")[:-1] if self._file.exists() else []
        return [json.loads(line) for line in lines]


def measure_loss(
    notes: Notes, find_victim: Callable[[], str], *, left: int, lose: Callable[[str], None] | None = None
) -> float:
    """Seconds from the loss of a Ray node, by its address, to the first step of a new group of `left` workers.

    `lose` kills the node; without one `kill_node` does.
    """
    notes.wait_for(WORKERS, steps=STEPS_BEFORE, after=0.0, seconds=START_SECONDS)
    address = find_victim()
    lost_at = time.time()
    (lose or kill_node)(address)
    return notes.wait_for(left, steps=1, after=lost_at, seconds=LOSS_SECONDS) - lost_at


def kill_node(address: str) -> None:
    """Kills all processes of `ray start` of this node at once, as when its machine is lost."""
    kill_tree(find_ray_start(address))


def find_head(kubectl: Kubectl, job: str) -> int:
    """Returns the first process of the job's head pod."""
    head = json.loads(kubectl("get", "trainjobs.railhead.dev", job, "-o", "json"))["status"]["head"]["pod"]
    address = json.loads(kubectl("get", "pod", head, "-o", "json"))["status"]["podIP"]
    return read_process_table()[find_ray_start(address)].parent


def find_ray_start(address: str) -> int:
    """The process that started this Ray node."""
    [start] = [pid for pid in read_process_table() if _is_ray_start(pid, address)]
    return start


def kill_tree(pid: int) -> None:
    for each in list_tree(pid):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _is_ray_start(pid: int, address: str) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return "start" in arguments and f"--node-ip-address={address}" in arguments


def compare_losses(
    what: str,
    rounds: int,
    bound: float,
    *,
    run_applied: Callable[[Session, Path], float],
    run_by_hand: Callable[[AddressPool, Path], float],
) -> int:
    """The same loss in a TrainJob and by hand, in turn; returns the exit code."""
    console = TimedConsole()
    with start_session(console) as session:
        ways = {APPLIED: partial(run_applied, session), BY_HAND: partial(run_by_hand, AddressPool())}
        bench = TakesTurns(session, console, ways)
        bench.run_rounds(rounds)
    return describe(what, bench.seconds, of=APPLIED, beside=BY_HAND, bound=bound)


@contextmanager
def applied(session: Session, storage: Path, spec: dict[str, Any]) -> Iterator[tuple[Kubectl, str]]:
    """A TrainJob with the folder's name, gone afterwards."""
    name = storage.name
    job = {"apiVersion": "railhead.dev/v1alpha1", "kind": "TrainJob", "metadata": {"name": name}, "spec": spec}
    with applied_manifest(session, name, json.dumps(job)) as kubectl:
        yield kubectl, name


def find_last_worker(kubectl: Kubectl, job: str) -> str:
    """The address of the last worker's pod."""
    pods = json.loads(kubectl("get", "pods", "-l", f"railhead.dev/job-name={job}", "-o", "json"))["items"]
    return str(max((p["metadata"]["name"], p["status"]["podIP"]) for p in pods if "-w" in p["metadata"]["name"])[1])
