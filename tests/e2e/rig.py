"""A local cluster every part of which can be killed: servers, operator, pods, single processes.

The parts are started by the test itself, because a session would end with its API server.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from railhead.api import names
from railhead.contract import environment as e
from railhead.contract.snapshot import SNAPSHOT, SnapshotUnreadable, parse_snapshot
from railhead.driver.container.hosts import is_listening
from railhead.driver.container.pod_processes import list_descendants, read_process_table
from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl, install, make_operator_kubeconfig
from railhead.local.session import STOPPED, Session, default_capacity
from railhead.local.supervisor import Supervisor, prepare
from tests import waiting
from tests.conftest import echo
from tests.e2e.cluster import PATIENCE, Cluster, Object
from tests.e2e.jobs import make_job, with_config
from tests.operator.running import RunningOperator

API_SERVER = "kube-apiserver"
GCS = "gcs_server"
# Records its first epoch, and waits in each epoch while the test holds it there.
CODE = """
import json, os, tempfile, time
import ray.train


def train_func(config):
    rank, notes = ray.train.get_context().get_world_rank(), os.environ["NOTES"]
    checkpoint, first = ray.train.get_checkpoint(), 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = json.load(open(os.path.join(folder, "epoch.json"))) + 1
    if rank == 0:
        with open(os.path.join(notes, "starts"), "a") as file:
            file.write(f"{first}\\n")
    for epoch in range(first, config["epochs"]):
        with open(os.path.join(notes, f"at-{epoch}-{rank}"), "w") as file:
            file.write(str(os.getpid()))
        while os.path.exists(os.path.join(notes, f"hold-{epoch}")):
            time.sleep(0.05)
        time.sleep(config["seconds"])
        with tempfile.TemporaryDirectory() as folder:
            json.dump(epoch, open(os.path.join(folder, "epoch.json"), "w"))
            mine = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"epoch": epoch}, checkpoint=mine)
"""


class Rig:
    """Control plane, node agent and operator of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        session = Session(folder / "session")
        session.folder.mkdir(parents=True)
        prepare(session, binaries=resolve(echo))
        self._supervisor = Supervisor(session, binaries=resolve(echo), capacity=default_capacity(), has_operator=False)
        self.cluster = Cluster(Kubectl(session.kubectl, session.kubeconfig), "default", "railhead/examples:0.1.0")

    def start(self) -> None:
        self._supervisor.start(echo)
        install(self.cluster.kubectl)
        kubeconfig = self._folder / "operator.kubeconfig"
        make_operator_kubeconfig(self.cluster.kubectl, self._supervisor.plane, kubeconfig)
        self.operator = RunningOperator(kubeconfig, self._folder)
        self.operator.start()

    def stop(self) -> None:
        self.operator.stop()
        self._supervisor.stop(STOPPED, "the tests are over")

    def kill_api_server(self) -> None:
        self._supervisor.plane.stop_one(API_SERVER)

    def start_api_server(self) -> None:
        self._supervisor.plane.start_one(API_SERVER)
        self._supervisor.plane.wait_ready()

    def apply(self, name: str, *, epochs: int, seconds: float = 0.0, hold: int | None = None) -> Job:
        """`hold`: the epoch in which all ranks wait until it is released."""
        job = Job(self.cluster, name, self._folder / name)
        job.notes.mkdir(parents=True)
        if hold is not None:
            job.hold(hold)
        spec: Object = {
            "trainer": {"framework": "Python", "trainFunc": "steps:train_func"},
            "run": {"storagePath": str(job.storage)},
            "env": [{"name": "NOTES", "value": str(job.notes)}],
        }
        document = make_job(name, self.cluster.image, code=CODE, **spec)
        self.cluster.apply(with_config(document, epochs=epochs, seconds=seconds))
        job.uid = str(self.cluster.job(name)["metadata"]["uid"])
        return job


class Job:
    """One job on the rig: its pods as processes, and the notes of its train_func."""

    def __init__(self, cluster: Cluster, name: str, folder: Path) -> None:
        self._cluster = cluster
        self.name = name
        self.uid = ""
        self.notes, self.storage = folder / "notes", folder / "runs"

    def hold(self, epoch: int) -> None:
        (self.notes / f"hold-{epoch}").touch()

    def release(self, epoch: int) -> None:
        (self.notes / f"hold-{epoch}").unlink()

    def wait_held(self, epoch: int, *, ranks: int = 2) -> list[int]:
        """Until all ranks are in this epoch and the one before is committed; returns the ranks' processes."""
        files = [self.notes / f"at-{epoch}-{rank}" for rank in range(ranks)]
        self._wait(f"epoch {epoch}", lambda: all(file.exists() and file.read_text() for file in files))
        self.wait_committed(epoch - 1)
        return [int(file.read_text()) for file in files]

    def wait_committed(self, epoch: int) -> None:
        """Until the storage has the commit, whatever is in the status."""
        self._wait(f"the commit of epoch {epoch}", lambda: epoch in self._committed())

    def wait_in_status(self, epoch: int) -> None:
        """Until the status has the commit of this epoch, if each epoch was committed once."""
        found = lambda: (self._cluster.status(self.name).get("checkpoint") or {}).get("index") == epoch  # noqa: E731
        self._wait(f"epoch {epoch} in the status", found)

    def _wait(self, what: str, ask: Callable[[], bool]) -> None:
        tell = lambda: self._cluster.tell(self.name)  # noqa: E731
        waiting.wait_until(what, ask, seconds=PATIENCE, tell=tell)

    def _committed(self) -> list[int]:
        try:
            [snapshot] = self.storage.glob(f"*/{SNAPSHOT}")
            return [int(entry.metrics["epoch"]) for entry in parse_snapshot(snapshot.read_text()).entries]
        except (ValueError, OSError, SnapshotUnreadable):
            return []

    def starts(self) -> list[int]:
        """The first epoch of each start of the group."""
        file = self.notes / "starts"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def head(self, attempt: int = 1) -> str:
        return names.head_name(self.name, self.uid, attempt)

    def worker(self, slot: int) -> str:
        return names.worker_name(self.name, self.uid, attempt=1, slot=slot, round_=0)

    def wait_process(self, pod: str) -> int:
        """The pod's first process, as soon as it exists."""
        find = lambda: find_first_process(pod)  # noqa: E731
        return int(waiting.wait_until(f"a process of {pod}", find, seconds=PATIENCE, pause=0.01))

    def is_gcs_up(self, attempt: int = 1) -> bool:
        pods = {p["metadata"]["name"]: p for p in self._cluster.pods(self.name)}
        ip = pods[self.head(attempt)]["status"].get("podIP")
        return bool(ip) and is_listening(ip, names.head_port(self.uid, attempt), timeout=1)

    def kill_pods(self, *pods: str) -> None:
        """Kills all processes of these pods at once, the first ones first, so that none cleans up after them."""
        processes = read_process_table()
        first = [find_first_process(pod) for pod in pods]
        assert all(first), f"no process of {pods}"
        kill([*first, *(child for pid in first for child in list_descendants(pid, processes))])

    def wait_end(self) -> Object:
        return self._cluster.wait_end(self.name)


def kill(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def find_first_process(pod: str) -> int:
    """The pid, or 0. All processes of a pod have its name in their environment."""
    wanted, processes = f"{e.POD_NAME}={pod}".encode(), read_process_table()
    found = {pid for pid in processes if wanted in _read(pid, "environ").split(b"\0")}
    return next((pid for pid in found if processes[pid].parent not in found), 0)


def find_program(name: str, *, below: int) -> int:
    """The descendant that runs this program, or 0."""
    found = list_descendants(below, read_process_table())
    return next((pid for pid in found if Path(os.fsdecode(_read(pid, "cmdline").split(b"\0")[0])).name == name), 0)


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
