"""The operator under test, as a process of this machine: start, wait, measure, stop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from benchmarks.machine import read_used
from benchmarks.run import RunFailed
from benchmarks.scale.metrics import sum_samples
from benchmarks.scale.plane import install, prepare
from benchmarks.scale.subject import Subject
from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane
from railhead.local.processes import end_child, spawn

READY_SECONDS = 300.0
LOOK_SECONDS = 0.1
LOOKS = 15  # for longer than the second for which the operator gives the same metrics


class Process:
    """Started and stopped as often as wanted, each time with the same ports."""

    def __init__(self, subject: Subject, plane: ControlPlane, kubeconfig: Path) -> None:
        self._ports = {"probe_port": str(free_port()), "report_port": str(free_port())}
        self._command = subject.build_command(kubeconfig=str(kubeconfig), python=sys.executable, **self._ports)
        self._env = {**os.environ, "PYTHONPATH": subject.packages} if subject.packages else None
        self._log = plane.folder / "logs" / f"{subject.name}.log"
        self._subject = subject
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._popen = spawn(self._command, log=self._log, env=self._env)

    @property
    def reports(self) -> str:
        """The URL of its report endpoint. Raises RunFailed when the subject names none."""
        if not self._subject.reports:
            raise RunFailed(f"{self._subject.name} has no report endpoint (reports: in its file)")
        return Template(self._subject.reports).substitute(self._ports)

    async def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while await asyncio.to_thread(_fetch, self.probes) is None:
            self._check(deadline, "is not ready")
            await asyncio.sleep(0.05)

    @property
    def probes(self) -> str:
        """The URL of /readyz, or of what the subject has instead."""
        return Template(self._subject.ready).substitute(self._ports)

    async def wait_idle(self) -> float:
        """When no key was due any more, by the monotonic clock and to a second; only if it stays so for longer."""
        deadline, since, seen = time.monotonic() + READY_SECONDS, 0.0, 0
        while seen < LOOKS:
            self._check(deadline, "still has work")
            text = await self.read_metrics()
            is_idle = bool(text) and sum_samples(text, self._subject.queue_depth) == 0
            if is_idle and not seen:
                since = time.monotonic()
            seen = seen + 1 if is_idle else 0
            await asyncio.sleep(LOOK_SECONDS)
        return since

    async def read_metrics(self) -> str:
        """Its own, or nothing when the subject names no URL."""
        url = Template(self._subject.metrics).substitute(self._ports)
        text = await asyncio.to_thread(_fetch, url) if url else None
        return text or ""

    @property
    def used(self) -> float:
        """CPU seconds since its start."""
        return read_used(self._pid)

    def memory(self, field: str = "VmRSS") -> float:
        """MiB; VmHWM is the highest so far."""
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        raise RunFailed(f"the operator has ended\n{self._read_log()}")

    async def measure_idle(self, seconds: float) -> float:
        """The share of one processor that it uses while nothing changes."""
        used, began = self.used, time.monotonic()
        await asyncio.sleep(seconds)
        return (self.used - used) / (time.monotonic() - began)

    def stop(self) -> None:
        """With SIGTERM, as Kubernetes does."""
        if self._popen is None:
            return
        end_child(self._popen, grace_seconds=10)
        self._popen = None

    @property
    def _pid(self) -> int:
        if self._popen is None:
            raise RunFailed("the operator is not running")
        return self._popen.pid

    def _check(self, deadline: float, what: str) -> None:
        if self._popen is None or self._popen.poll() is not None or time.monotonic() > deadline:
            raise RunFailed(f"the operator {what}\n{self._read_log()}")

    def _read_log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


@contextmanager
def installed(plane: ControlPlane, subject: Subject) -> Iterator[Process]:
    """The operator in this control plane, not started yet; stopped at the end."""
    kubeconfig = prepare(plane)
    install(plane, subject)
    process = Process(subject, plane, kubeconfig)
    try:
        yield process
    finally:
        process.stop()


def _fetch(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return None
