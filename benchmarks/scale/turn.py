"""One turn: a fresh API server, the operator under test, and as many jobs at once; or the floor, pods alone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import yaml

from benchmarks.machine import read_used
from benchmarks.run import RunFailed
from benchmarks.scale.api import Api, Object, connect
from benchmarks.scale.subject import Subject
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.identities import write_kubeconfig
from railhead.local.install import Kubectl
from railhead.local.ports import free_port
from railhead.local.processes import end, identify, spawn

NAMESPACE = "bench"
ACCOUNT = "bench-operator"
READY_SECONDS = 120.0
STALLED_SECONDS = 60.0
SETTLE_SECONDS = 3.0
IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class Figures:
    """Of one turn. Seconds, CPU seconds of the operator, MiB; requests per job, by the API server's count."""

    name: str
    jobs: int
    pods: int
    seconds: float
    cpu_seconds: float = 0.0
    idle_share: float = 0.0
    rss_before: float = 0.0
    rss_after: float = 0.0
    rss_peak: float = 0.0
    requests: dict[str, float] = field(default_factory=dict)

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.seconds


class Process:
    """The operator's process."""

    def __init__(self, subject: Subject, plane: ControlPlane, kubeconfig: Path) -> None:
        ports = {"probe_port": str(free_port()), "report_port": str(free_port())}
        command = subject.build_command(kubeconfig=str(kubeconfig), python=sys.executable, **ports)
        env = {**os.environ, "PYTHONPATH": subject.packages} if subject.packages else None
        self._log = plane.folder / "logs" / f"{subject.name}.log"
        self._ready = Template(subject.ready).substitute(ports)
        self._popen = spawn(command, log=self._log, env=env)

    async def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not await asyncio.to_thread(_is_answering, self._ready):
            if self._popen.poll() is not None or time.monotonic() > deadline:
                raise RunFailed(f"the operator is not ready\n{self._log.read_text()[-3000:]}")
            await asyncio.sleep(0.05)

    def used(self) -> float:
        return read_used(self._popen.pid)

    def memory(self, field_: str = "VmRSS") -> float:
        """MiB; VmHWM is the highest so far."""
        for line in Path(f"/proc/{self._popen.pid}/status").read_text().splitlines():
            if line.startswith(field_):
                return int(line.split()[1]) / 1024
        raise RunFailed(f"the operator has ended\n{self._log.read_text()[-3000:]}")

    def stop(self) -> None:
        found = identify(self._popen.pid)
        if found:
            end([found], grace_seconds=10)
        self._popen.wait()


def _is_answering(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def start_plane(folder: Path, binaries: Path) -> Iterator[ControlPlane]:
    """Neither scheduler nor controllers: what is measured is how fast the operator creates."""
    plane = ControlPlane(folder, binaries=binaries)
    try:
        plane.start(("etcd", "kube-apiserver"))
        yield plane
    finally:
        plane.stop()


def prepare(plane: ControlPlane) -> Path:
    """A namespace for the jobs, and an account with all rights for the operator; its kubeconfig."""
    kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
        for name in ("default", ACCOUNT)
    ]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl.apply([namespace, *accounts, binding])
    token = kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=24h").strip()
    path = plane.folder / "operator.kubeconfig"
    write_kubeconfig(path, server=plane.server, pki=plane.pki, token=token)
    return path


def install(plane: ControlPlane, subject: Subject) -> None:
    kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
    for path in subject.install:
        documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
        kubectl.apply(sorted(documents, key=lambda each: str(each["kind"]) != "Namespace"))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")


async def run_jobs(plane: ControlPlane, subject: Subject, *, jobs: int, workers: int) -> tuple[Figures, list[Object]]:
    """Creates the jobs and waits for all their pods. The figures, and the pods of the first job."""
    kubeconfig = prepare(plane)
    install(plane, subject)
    process = Process(subject, plane, kubeconfig)
    try:
        async with connect(plane) as api:
            await process.wait_ready()
            await asyncio.sleep(SETTLE_SECONDS)
            before, used, rss_before = await api.count_requests(), process.used(), process.memory()
            path = Template(subject.jobs).substitute(namespace=NAMESPACE)
            bodies = [subject.build_job(f"job-{n}", namespace=NAMESPACE, workers=workers) for n in range(jobs)]
            pods = jobs * (workers + subject.pods_per_job)
            async with counting(api, pods) as complete:
                began = time.monotonic()
                await api.for_all(("POST", path, body) for body in bodies)
                await complete.wait()
                seconds = time.monotonic() - began
            await asyncio.sleep(SETTLE_SECONDS)  # writes that follow the last pod count too
            used_all, requests = process.used() - used, await api.count_requests() - before
            at_rest = process.used()
            await asyncio.sleep(IDLE_SECONDS)
            found = await api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?limit={workers + 1}")
            return Figures(
                name=subject.name,
                jobs=jobs,
                pods=pods,
                seconds=seconds,
                cpu_seconds=used_all,
                idle_share=(process.used() - at_rest) / IDLE_SECONDS,
                rss_before=rss_before,
                rss_after=process.memory(),
                rss_peak=process.memory("VmHWM"),
                requests=_per_job(requests, jobs, own=f"POST {path.rpartition('/')[2]}"),
            ), list(found["items"])
    finally:
        process.stop()


def _per_job(requests: Counter[str], jobs: int, *, own: str) -> dict[str, float]:
    """Without those of this benchmark, and without what does not grow with the jobs."""
    counted = requests - Counter({own: jobs})
    return {what: round(number / jobs, 2) for what, number in sorted(counted.items()) if number >= 0.02 * jobs}


async def run_floor(plane: ControlPlane, pods: list[Object], *, jobs: int) -> Figures:
    """The same pods, created by a plain client that knows them in advance."""
    prepare(plane)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    bodies = [_copy(pod, name=f"floor-{job}-{n}") for job in range(jobs) for n, pod in enumerate(pods)]
    async with connect(plane) as api, counting(api, len(bodies)) as complete:
        used, began = read_used(os.getpid()), time.monotonic()
        await api.for_all(("POST", path, body) for body in bodies)
        await complete.wait()
        seconds = time.monotonic() - began
        cpu = read_used(os.getpid()) - used
    return Figures(name="floor", jobs=jobs, pods=len(bodies), seconds=seconds, cpu_seconds=cpu)


def _copy(pod: Object, *, name: str) -> bytes:
    metadata = {key: pod["metadata"][key] for key in ("labels", "annotations") if key in pod["metadata"]}
    return json.dumps({"metadata": {**metadata, "name": name}, "spec": pod["spec"]}).encode()


class Complete:
    """Counts pods; `wait` returns with the last one. Raises RunFailed when none comes for a minute."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self._last = time.monotonic()
        self._done = asyncio.Event()

    def count(self) -> None:
        self._left -= 1
        self._last = time.monotonic()
        if self._left <= 0:
            self._done.set()

    async def wait(self) -> None:
        while not self._done.is_set():
            if time.monotonic() - self._last > STALLED_SECONDS:
                raise RunFailed(f"no pod was created for {STALLED_SECONDS:.0f} s; {self._left} are missing")
            try:
                await asyncio.wait_for(self._done.wait(), 1)
            except TimeoutError:
                continue


@asynccontextmanager
async def counting(api: Api, wanted: int) -> AsyncIterator[Complete]:
    complete, ready = Complete(wanted), asyncio.Event()
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    task = asyncio.create_task(api.watch_added(path, complete.count, ready=ready))
    waits = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({task, waits}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield complete
    finally:
        waits.cancel()
        task.cancel()
        await asyncio.gather(task, waits, return_exceptions=True)
