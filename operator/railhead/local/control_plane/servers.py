"""Starts and stops the servers of one control plane, all of them on loopback and free ports."""

from __future__ import annotations

import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from railhead.local.addresses import free_port
from railhead.local.control_plane.identities import write_identities
from railhead.local.processes import Identity, end, identify, spawn

READY_SECONDS = 90.0
FIRST = ("etcd", "kube-apiserver")
ALL = (*FIRST, "kube-controller-manager", "kube-scheduler")
# Nothing here resolves Services, and Endpoints may not be in the loopback range: they would only log warnings.
NOT_NEEDED = (
    "node-ipam",
    "service-lb",
    "node-route",
    "endpoints",
    "endpointslice",
    "endpointslice-mirroring",
)


class NotReady(RuntimeError):
    """A server exited or did not become ready; the message ends with the end of its log."""


class ControlPlane:
    """One control plane in one folder.

    Attributes:
        kubeconfig: an administrator's.
        server: URL of the API server.
        api_server_options: options of the API server in addition to our own.
        disabled_controllers: controllers that the controller manager does not run, `NOT_NEEDED` among them.
        client_options: options of the controller manager and the scheduler in addition to our own.
    """

    def __init__(
        self,
        folder: Path,
        *,
        binaries: Path,
        node: str = "local",
        api_server_options: Sequence[str] = (),
        disabled_controllers: Sequence[str] = (),
        client_options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.binaries = binaries
        self.port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = folder / "admin.kubeconfig"
        self.pki = folder / "pki"
        self.api_server_options = api_server_options
        self.disabled_controllers = (*NOT_NEEDED, *disabled_controllers)
        self.client_options = client_options
        self._node = node
        self._etcd = (free_port(), free_port())
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, components: Sequence[str] = ALL) -> None:
        """Starts the servers and waits until the API server is ready.

        Raises:
            NotReady: with the end of the server's log.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_identities(self.folder, server=self.server, node=self._node)
        for component in FIRST:
            if component in components:
                self.start_one(component)
        self.wait_ready()
        for component in components:
            if component not in FIRST:  # they exit at once if their roles do not exist yet
                self.start_one(component)

    def start_one(self, component: str) -> None:
        command = [str(self.binaries / component), *self._arguments(component)]
        self._processes[component] = spawn(command, log=self.folder / "logs" / f"{component}.log", cwd=self.folder)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        while time.monotonic() < deadline:
            self.check()
            try:
                with urllib.request.urlopen(f"{self.server}/readyz", context=context, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise NotReady(f"the API server was not ready after {READY_SECONDS:.0f} s: {self._log_end('kube-apiserver')}")

    def check(self) -> None:
        """Raises NotReady when a server has exited."""
        for component, process in self._processes.items():
            if process.poll() is not None:
                raise NotReady(f"{component} exited with code {process.returncode}: {self._log_end(component)}")

    def pids(self) -> dict[str, int]:
        return {component: process.pid for component, process in self._processes.items()}

    def identities(self) -> list[Identity]:
        found = (identify(pid) for pid in self.pids().values())
        return [identity for identity in found if identity is not None]

    def stop_one(self, component: str) -> None:
        """Kills one server; `start_one` starts it again."""
        process = self._processes.pop(component)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Kills all servers at once: nobody needs what they would still write."""
        end(self.identities(), grace_seconds=0)
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def _log_end(self, component: str) -> str:
        log = self.folder / "logs" / f"{component}.log"
        return log.read_text(errors="replace")[-1500:] if log.exists() else "(no log)"

    def _arguments(self, component: str) -> list[str]:
        return {
            "etcd": self._etcd_arguments,
            "kube-apiserver": self._api_server_arguments,
            "kube-controller-manager": self._controller_manager_arguments,
            "kube-scheduler": self._scheduler_arguments,
        }[component]()

    def _etcd_arguments(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._etcd)
        return [
            "--name=local",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=local={peer}",
        ]

    def _api_server_arguments(self) -> list[str]:
        pki = self.pki
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd[0]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--cert-dir={self.folder / 'api'}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'kubelet-client.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'sa.pub'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # It keeps pods off a new node until the controller manager has processed it: seconds, for nothing.
            "--disable-admission-plugins=TaintNodesByCondition",
            "--profiling=false",
            *self.api_server_options,
        ]

    def _controller_manager_arguments(self) -> list[str]:
        kubeconfig = self.folder / "kube-controller-manager.kubeconfig"
        return [
            *self._client_arguments(kubeconfig),
            f"--service-account-private-key-file={self.pki / 'sa.key'}",
            f"--root-ca-file={self.pki / 'ca.crt'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            f"--controllers=*,{','.join(f'-{name}-controller' for name in self.disabled_controllers)}",
        ]

    def _scheduler_arguments(self) -> list[str]:
        return [*self._client_arguments(self.folder / "kube-scheduler.kubeconfig"), "--leader-elect=false"]

    def _client_arguments(self, kubeconfig: Path) -> list[str]:
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            *self.client_options,
        ]
