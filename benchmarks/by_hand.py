"""A job without Railhead: a Ray cluster started by hand, and the user's own driver.

Head, workers and driver start at the same moment; the workers wait for the head, the driver
imports meanwhile. Ray's arguments and environment are those of `by_hand_settings.py`, its configs
and the sizes of the nodes those of the TrainJob; it has none of Railhead's own parts (bundle,
callback, failure policy, publisher).
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.by_hand_settings import TUNED, HandSettings
from benchmarks.example import CODE, read_spec
from benchmarks.milestones import DRIVER_END, read_milestones
from benchmarks.run import LIMIT_SECONDS, Run, RunFailed
from railhead.api.spec import TrainJobSpec
from railhead.contract.job_input import JobInput
from railhead.driver.container.pod_input import Pod
from railhead.driver.fit.train_func_trainer import plan_configs, plan_options
from railhead.local.addresses import AddressPool, free_port
from railhead.local.node.container import base_environment
from railhead.local.processes import MARKER, end_marked, spawn
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input

DRIVER = Path(__file__).with_name("by_hand_driver.py")
_ACCURACY = re.compile(r"^.*accuracy ([\d.]+)", re.MULTILINE)  # with Ray's defaults in color
RAY = Path(sys.executable).with_name("ray")


@dataclass(frozen=True)
class Script:
    """What runs by hand: the job's spec, the user's code, the user's driver, and more settings for the driver."""

    spec: TrainJobSpec
    code: Path
    driver: Path
    settings: Mapping[str, object] = field(default_factory=dict)


class HandStarted:
    """One cluster and one run; everything is in its own folder, and its processes are ended by their marker."""

    def __init__(
        self,
        name: str,
        pool: AddressPool,
        *,
        storage: Path,
        script: Script | None = None,
        settings: HandSettings = TUNED,
    ) -> None:
        self._settings = settings
        self._script = script or Script(read_spec(), CODE, DRIVER)
        self._job = build_job_input(JobRef("default", name, str(uuid.uuid4())), self._script.spec)
        self._storage = storage
        self._folder = Path(tempfile.mkdtemp(prefix="rhb-"))  # short: unix sockets are created below it
        self._pool = pool
        self._port = free_port()
        self._head = self._pod("head")
        (self._folder / "token").write_text(secrets.token_hex(32))

    def __enter__(self) -> HandStarted:
        return self

    def __exit__(self, *_: object) -> None:
        end_marked(MARKER, str(self._folder), folder=self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self) -> Run:
        """The digits, with their milestones. Raises RunFailed."""
        began, ended, output = self.run_driver()
        times = read_milestones(
            self._head.temp / "session_latest" / "logs",
            driver_log=output,
            run_folder=self._storage / self._job.run_name,
        )
        milestones = {mark: at - began for mark, at in {**times, DRIVER_END: ended}.items()}
        return Run(ended - began, milestones, float(_ACCURACY.findall(output)[-1]))

    def run_driver(self) -> tuple[float, float, str]:
        """When it started and ended, and the driver's output. Raises RunFailed."""
        began = time.time()
        driver = self.start()
        _wait_or_kill(driver)
        ended = time.time()
        output = self.read_log()
        if driver.returncode:
            raise RunFailed(f"the driver exited with code {driver.returncode}:\n{output[-3000:]}")
        return began, ended, output

    def start(self) -> subprocess.Popen[bytes]:
        """Starts head, workers and driver; returns the driver."""
        self._write_driver()
        self.workers = [self._pod(f"w{slot}") for slot in range(self._job.worker_pods)]
        self._start_ray(self._head, "head", "--head", f"--port={self._port}")
        for worker in self.workers:
            self._start_worker(worker)
        return self._spawn([sys.executable, "driver.py"], self._head, cwd=self._folder / "code", log=self._log)

    @property
    def head_ip(self) -> str:
        return self._head.ip

    def start_another_worker(self) -> None:
        """As the owner of the cluster does when a node is lost."""
        worker = self._pod(f"w{len(self.workers)}")
        self.workers.append(worker)
        self._start_worker(worker)

    @contextmanager
    def log_on_timeout(self) -> Iterator[None]:
        """Adds the end of the driver's log to a TimeoutError."""
        try:
            yield
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self.read_log()[-3000:]}") from None

    def read_log(self) -> str:
        """The driver's output."""
        return self._log.read_text(errors="replace")

    @property
    def _log(self) -> Path:
        return self._folder / "driver.log"

    def _start_worker(self, worker: Pod) -> None:
        self._start_ray(worker, "worker", f"--address={self._head.ip}:{self._port}")

    def _start_ray(self, pod: Pod, role: str, *arguments: str) -> None:
        place = (f"--node-ip-address={pod.ip}", f"--temp-dir={pod.temp}", "--block")
        pod.temp.mkdir()
        command = [str(RAY), "start", *place, *self._settings.build_node(self._job, role), *arguments]
        self._spawn(command, pod, cwd=pod.temp, log=pod.temp.with_suffix(".log"))

    def _spawn(self, command: list[str], pod: Pod, *, cwd: Path, log: Path) -> subprocess.Popen[bytes]:
        return spawn(command, cwd=cwd, log=log, env=self._environment(pod))

    def _environment(self, pod: Pod) -> dict[str, str]:
        return {
            **base_environment(),
            **self._settings.build_environment(self._job),
            "HOME": str(pod.temp),
            "CUDA_VISIBLE_DEVICES": "",
            "RAY_AUTH_TOKEN_PATH": str(self._folder / "token"),
            MARKER: str(self._folder),
        }

    def _pod(self, name: str) -> Pod:
        """As a Pod, what a user who starts a node by hand chooses: an address and a folder."""
        ip = self._pool.take()
        head_ip = ip if name == "head" else self._head.ip
        return Pod(
            input_folder=self._folder,
            bundle="",
            ip=ip,
            head_host=head_ip,
            head_port=self._port,
            temp=self._folder / name,
            attempt=1,
            checkpoint_index=-1,
            worker_pods=None,
            resume_from=None,
            report_url=None,
            report_token=None,
            termination_message=None,
        )

    def _write_driver(self) -> None:
        code = self._folder / "code"
        code.mkdir()
        shutil.copy(self._script.code, code)
        shutil.copy(self._script.driver, code / "driver.py")
        settings = _build_settings(self._job, self._head, storage=self._storage)
        (code / "settings.json").write_text(json.dumps({**settings, **self._script.settings}))


def _build_settings(job: JobInput, head: Pod, *, storage: Path) -> dict[str, object]:
    plan = plan_configs(job, storage_path=str(storage))
    return {
        "ip": head.ip,
        "port": head.head_port,
        "trainFunc": job.train_func,
        "trainLoopConfig": job.train_loop_config,
        "scaling": plan.scaling,
        "run": plan.run,
        "failure": plan.failure,
        "checkpoint": plan.checkpoint,
        "torch": plan_options(job.framework, job.backend),
    }


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    """Without a timeout on `wait`, which would poll only every 50 ms."""
    timer = threading.Timer(LIMIT_SECONDS, process.kill)
    timer.start()
    try:
        process.wait()
    finally:
        timer.cancel()
