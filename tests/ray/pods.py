"""A job's pods as plain processes on loopback addresses: real Ray, real bundle, no Kubernetes.

Each pod gets what its container would: the environment of `contract.environment`, an input
folder, its own temp folder and its own address. Every process is ended by pid.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from railhead.contract import environment as e
from railhead.contract.answer import Answer
from railhead.contract.job_input import CA_KEY, FILE, JobInput, RayNode, RayNodes, ScalingInput
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint
from railhead.driver.container.pod_processes import list_descendants, read_process_table
from railhead.local.addresses import AddressPool, free_port
from railhead.resources.bundle import build_bundle

OBJECT_STORE = 100_000_000
RAY_VERSION = metadata.version("ray")
# All nodes of one machine then share the head's folder, and those that start together use the same sockets.
IS_SHARING_FOLDERS = tuple(int(part) for part in RAY_VERSION.split(".")[:2]) < (2, 55)


def make_job(**changes: Any) -> JobInput:
    """Two workers of one CPU each; `train_func` is `user:train_func`."""
    job = JobInput(
        namespace="default",
        name="test",
        uid="0a1b2c3d-0000-0000-0000-000000000000",
        run_name="test-0a1b2c3d",
        framework="Torch",
        train_func="user:train_func",
        scaling=ScalingInput(2, use_gpu=False, resources_per_worker={"CPU": 1.0}),
        worker_pods=2,
        ray_node=RayNodes(
            head=RayNode(object_store_bytes=OBJECT_STORE), worker=RayNode(cpus=1, object_store_bytes=OBJECT_STORE)
        ),
    )
    return replace(job, **changes)


def make_single_job(**changes: Any) -> JobInput:
    """One worker, whose `train_func` needs no process group: for tests that gain nothing from a second one."""
    scaling = ScalingInput(1, use_gpu=False, resources_per_worker={"CPU": 1.0})
    return make_job(**{"framework": "Python", "scaling": scaling, "worker_pods": 1, **changes})


def share_pod(job: JobInput) -> JobInput:
    """All its workers in one pod: for tests of several ranks, on any number of nodes."""
    worker = replace(job.ray_node.worker, cpus=job.ray_node.worker.cpus * job.worker_pods)
    return replace(job, worker_pods=1, ray_node=replace(job.ray_node, worker=worker))


def describe_known(*found: CommittedCheckpoint) -> str:
    """Checkpoints of earlier attempts, as passed to a head in `contract.environment.KNOWN_CHECKPOINTS`."""
    return json.dumps([_describe(c) for c in found])


def _describe(found: CommittedCheckpoint) -> dict[str, Any]:
    place = {"name": Path(found.uri).name, "run": Path(found.uri).parent.name}
    return {**place, "index": found.index, "time": found.time, "attempt": found.attempt}


class Pods:
    """One job. Use as a context manager; `reports` are the bodies that the endpoint received.

    Attributes:
        answer: the endpoint's response to a report; None = an empty one, which changes nothing.
        python: of the pods' image.
    """

    def __init__(
        self,
        folder: Path,
        job: JobInput,
        *,
        source: dict[str, str],
        storage: str | None = None,
        python: str = sys.executable,
        address: str = "",
    ) -> None:
        """`address`: of all pods; by default each has its own, in 127.0.0.0/8."""
        self.folder = folder
        self.job = job
        self.python = python
        self._address = address
        self.storage = storage or str(folder / "runs")
        self.reports: list[dict[str, Any]] = []
        self._temp = Path(tempfile.mkdtemp(prefix="rh", dir="/tmp"))  # short, for the paths of Unix sockets
        self._range = AddressPool()  # no other process of this machine has it
        self._port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses: dict[str, str] = {}
        self.answer: Callable[[dict[str, Any]], Answer | None] = lambda report: None
        self._server = _start_endpoint(self.reports, lambda report: self.answer(report))
        for name, text in source.items():
            _write(folder / "source" / name, text)
        # Instead of the path of a mount, which a job that was built from a spec has.
        path = self.storage
        if "://" in job.storage_path:
            path = job.storage_path
        _write(folder / "input" / FILE, replace(job, storage_path=path).to_json())
        _write(folder / "auth" / "token", "0123456789abcdef0123456789abcdef")
        _write(folder / "report-token", "the-pods-token\n")
        (folder / "input" / CA_KEY).write_text("")
        (folder / "railhead.pyz").write_bytes(build_bundle())

    def __enter__(self) -> Pods:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self._server.shutdown()
        self._server.server_close()
        self._range.close()
        shutil.rmtree(self._temp, ignore_errors=True)

    @property
    def pids(self) -> dict[str, int]:
        """Of the pods' first processes."""
        return {name: process.pid for name, process in self._processes.items()}

    def start(
        self,
        *,
        workers: int = 2,
        attempt: int = 1,
        checkpoint_index: int = -1,
        env: Mapping[str, str] = MappingProxyType({}),
        worker_env: Mapping[str, str] | None = None,
    ) -> None:
        """`worker_env`: of the workers, where it is not that of the head."""
        self.start_head(attempt=attempt, checkpoint_index=checkpoint_index, **env)
        for slot in range(workers):
            if IS_SHARING_FOLDERS:
                self.wait_until(partial(self._has_raylets, slot + 1))
            self.start_worker(slot, env=env if worker_env is None else worker_env)

    def _has_raylets(self, count: int) -> bool:
        sockets = self.temp_of("head") / "session_latest" / "sockets"
        return len(list(sockets.glob("raylet*"))) >= count

    def start_head(self, *, attempt: int = 1, checkpoint_index: int = -1, **env: str) -> None:
        own = {
            e.ATTEMPT: str(attempt),
            e.CHECKPOINT_INDEX: str(checkpoint_index),
            e.REPORT_URL: f"http://127.0.0.1:{self._server.server_address[1]}",
            e.REPORT_TOKEN: str(self.folder / "report-token"),
            "CUDA_VISIBLE_DEVICES": "",
        }
        self._start("head", f"{self._range.prefix}.2", {**own, **env})

    def start_worker(
        self, slot: int, *, round_: int = 0, env: Mapping[str, str] | None = None, wrap: Sequence[str] = ()
    ) -> None:
        """`wrap` is a command that runs the one behind it, for a pod that sees other things than the rest."""
        self._start(f"w{slot}-{round_}", f"{self._range.prefix}.{10 + slot * 10 + round_}", dict(env or {}), wrap)

    def _start(self, name: str, ip: str, env: dict[str, str], wrap: Sequence[str] = ()) -> None:
        role = "head" if name == "head" else "worker"
        ip = self._address or ip
        self.addresses[name] = ip
        hosts = self.folder / "hosts"
        hosts.write_text(f"{self.addresses['head']} the-head.test.default.svc\n")
        values = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            e.INPUT: str(self.folder / "input"),
            e.SOURCE: str(self.folder / "source"),
            e.BUNDLE: str(self.folder / "railhead.pyz"),
            e.ATTEMPT: "1",
            e.HEAD_HOST: "the-head.test.default.svc",
            e.HEAD_PORT: str(self._port),
            e.POD_NAME: name,
            e.POD_IP: ip,
            e.TEMP: str(self._temp / name),
            e.TERMINATION_MESSAGE: str(self.folder / f"{name}.termination"),
            e.HOSTS_FILE: str(hosts),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.folder / "auth" / "token"),
            **env,
        }
        with open(self.folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                [*wrap, self.python, str(self.folder / "railhead.pyz"), role],
                env=values,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run_in_head(self, role: str) -> subprocess.CompletedProcess[str]:
        """Runs the bundle with this role beside the head's driver, as an exec does."""
        command = [self.python, "-I", "-S", str(self.folder / "railhead.pyz"), role]
        values = {"PATH": os.environ["PATH"], e.TEMP: str(self.temp_of("head"))}
        return subprocess.run(command, env=values, capture_output=True, text=True, timeout=60, check=False)

    def wait_ended(self, name: str = "head", *, timeout: float = 180) -> int:
        try:
            return self._processes[name].wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} did not end in {timeout} s:\n{self.read_log(name)}") from None

    def wait_until(self, condition: Callable[[], bool], *, timeout: float = 180) -> None:
        """Also fails if the head ends meanwhile."""
        deadline = time.monotonic() + timeout
        while not condition():
            ended = self._processes["head"].poll()
            assert ended is None, f"the head ended with {ended}:\n{self.read_log()}"
            assert time.monotonic() < deadline, f"not within {timeout} s:\n{self.read_log()}"
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        """As when a node is lost: the entry point, and with it all of Ray on this node."""
        self._processes[name].kill()

    def kill_process(self, title: str) -> None:
        """Ray's processes with this title in `ps`; at least one."""
        found = self._find_processes(title)
        assert found, title
        for pid in found:
            os.kill(pid, signal.SIGKILL)

    def has_process(self, title: str) -> bool:
        return bool(self._find_processes(title))

    def count_processes(self, title: str) -> int:
        return len(self._find_processes(title))

    def _find_processes(self, title: str) -> list[int]:
        processes = read_process_table()
        found = [pid for process in self._processes.values() for pid in list_descendants(process.pid, processes)]
        return [pid for pid in found if title in _read_title(pid)]

    def cut_off(self) -> None:
        """Stops the report endpoint from answering."""
        self._server.shutdown()
        self._server.server_close()

    def terminate(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGTERM)

    def read_log(self, name: str = "head") -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def read_outcome(self) -> Outcome:
        outcome = Outcome.from_json((self.folder / "head.termination").read_text())
        assert outcome is not None
        return outcome

    def temp_of(self, name: str) -> Path:
        return self._temp / name


def _read_title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[0]
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _start_endpoint(
    reports: list[dict[str, Any]], answer: Callable[[dict[str, Any]], Answer | None]
) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_known = self.headers["Authorization"] == "Bearer the-pods-token"
            if is_known:
                reports.append({**body, "received": time.monotonic()})
            answered = answer(body) if is_known else None
            data = json.dumps(asdict(answered)).encode() if answered else b""
            self.send_response(202 if is_known else 401)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
