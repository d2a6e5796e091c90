"""The operator as a process, with only the rights of its own service account."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from railhead.local.addresses import free_port
from railhead.local.control_plane.servers import answers
from railhead.local.install import NAMESPACE
from railhead.local.processes import python_command, spawn
from tests.operator.forked import ForkedOperator
from tests.waiting import wait_until

READY_SECONDS = 60


class RunningOperator:
    """One operator for one control plane.

    Attributes:
        report_url: base URL of its report endpoint.
        log: what it has written.
    """

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        *,
        namespace: str = NAMESPACE,
        flags: Sequence[str] = (),
        packages: Path | None = None,
    ) -> None:
        """`namespace` is the operator's own; `flags` apply to every start; `packages` has another version, which runs
        in its own interpreter."""
        self._packages = packages
        self.kubeconfig = kubeconfig
        self._namespace, self._flags = namespace, flags
        self._report_port, self._probe_port = free_port(), free_port()
        self.report_url = f"https://127.0.0.1:{self._report_port}"
        self.log = folder / "operator.log"
        self._process: ForkedOperator | subprocess.Popen[bytes] | None = None

    def start(self, *, report_url: str = "", flags: Sequence[str] = ()) -> None:
        """Returns when its watches are synced. `report_url` is what jobs receive instead of the real one."""
        self.launch(report_url=report_url, flags=flags)
        self.wait_ready()

    def wake(self) -> None:
        """Starts it if it rests or has not been started; one that has exited by itself stays down."""
        if self._process is None:
            self.start()

    def rest(self) -> None:
        """Ends it, as `end` does, unless it rests already: the next test that needs it wakes it."""
        if self._process is not None:
            self.end()

    def launch(self, *, report_url: str = "", flags: Sequence[str] = ()) -> None:
        """Does not wait for anything."""
        options = {
            "kubeconfig": self.kubeconfig,
            "namespace": self._namespace,
            "report-listen": f"127.0.0.1:{self._report_port}",
            "report-url": report_url or self.report_url,
            "probe-listen": f"127.0.0.1:{self._probe_port}",
        }
        all_flags = [*(f"--{option}={value}" for option, value in options.items()), *self._flags, *flags]
        if self._packages is None:
            self._process = ForkedOperator(["operator", *all_flags], log=self.log)
            return
        command = [*python_command("railhead.cli operator", {}), *all_flags]
        self._process = spawn(command, log=self.log, env={**os.environ, "PYTHONPATH": str(self._packages)})

    def wait_ready(self) -> None:
        assert self._process is not None
        ready = f"http://127.0.0.1:{self._probe_port}/readyz"

        def is_ready() -> bool:
            assert not self.has_ended, self.log.read_text()
            return answers(ready)

        wait_until("the operator is ready", is_ready, seconds=READY_SECONDS, tell=self.log.read_text)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def has_ended(self) -> bool:
        """By itself or by a signal."""
        return self._process is None or self._process.poll() is not None

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        assert self._process is not None
        code = self._process.wait(timeout=120)  # on a busy machine its imports alone take long
        self._process = None
        return code

    def stop(self) -> None:
        """Kills it: it must be able to die at any moment."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def end(self) -> int:
        """Sends SIGTERM, as Kubernetes does; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._probe_port}/metrics", timeout=10) as response:
            return str(response.read().decode())

    def post(self, body: bytes, *, token: str | None, ca: str, path: str = "/v1/report") -> int:
        """The status of the report endpoint's answer."""
        with tempfile.NamedTemporaryFile("w", suffix=".crt") as file:
            file.write(ca)
            file.flush()
            context = ssl.create_default_context(cafile=file.name)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"{self.report_url}{path}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, context=context, timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
