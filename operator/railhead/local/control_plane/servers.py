"""One control plane: its servers, all of them on loopback and free ports, and their identities.

The identities are two CAs, certificates for servers and clients, and kubeconfigs. Other users of the machine reach the
ports too, so each server accepts only clients with a certificate or a token.
"""

from __future__ import annotations

import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from railhead.local.addresses import free_port
from railhead.local.private import make_private
from railhead.local.processes import read_end, spawn
from railhead.pki import Pair, issue, make_ca, make_signing_keys

READY_SECONDS = 90.0
NODE_NAME = "local"  # the only node
FIRST = ("etcd", "kube-apiserver")
ALL = (*FIRST, "kube-controller-manager", "kube-scheduler")
# Nothing here resolves Services, and Endpoints may not be in the loopback range: they would only log warnings.
NOT_NEEDED = ("node-ipam", "endpoints", "endpointslice", "endpointslice-mirroring")

DAYS = 365
SERVICE_ADDRESS = "10.96.0.1"
# file name -> (common name, organization); a component's identity decides what it may do
CLIENTS = {
    "admin": ("railhead-local-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kubelet-client": ("kube-apiserver-kubelet-client", "system:masters"),
    "node": (f"system:node:{NODE_NAME}", "system:nodes"),
}
# etcd believes each client that the CA has signed, so it has its own one: with the cluster's CA every node could
# overwrite every object. Its one certificate is for the server, the peers and kube-apiserver.
ETCD = "etcd"
ETCD_CA = "etcd-ca"
SERVER_NAMES = ("127.0.0.1", SERVICE_ADDRESS, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


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
        self._etcd = (free_port(), free_port())
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, components: Sequence[str] = ALL) -> None:
        """Starts the servers and waits until the API server is ready.

        Raises:
            NotReady: with the end of the server's log.
            LocalError: the folder is another user's.
        """
        make_private(self.folder)
        write_identities(self.folder, server=self.server)
        for component in FIRST:
            if component in components:
                self.start_one(component)
        self.wait_ready()
        for component in components:
            # They exit at once if their roles do not exist yet.
            if component not in FIRST:
                self.start_one(component)

    def start_one(self, component: str) -> None:
        command = [str(self.binaries / component), *self._arguments(component)]
        self._processes[component] = spawn(command, log=self._log(component), cwd=self.folder)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        while time.monotonic() < deadline:
            self.check()
            if answers(f"{self.server}/readyz", context=context):
                return
            time.sleep(0.1)
        raise NotReady(
            f"the API server was not ready after {READY_SECONDS:.0f} s: {read_end(self._log('kube-apiserver'))}"
        )

    def check(self) -> None:
        """Raises NotReady when a server has exited."""
        for component, process in self._processes.items():
            check_running(component, process, log=self._log(component))

    def pids(self) -> dict[str, int]:
        return {component: process.pid for component, process in self._processes.items()}

    def stop_one(self, component: str) -> None:
        """Kills one server; `start_one` starts it again."""
        process = self._processes.pop(component)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Kills all servers at once: what they would still write is not needed."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def _log(self, component: str) -> Path:
        return self.folder / "logs" / f"{component}.log"

    def _arguments(self, component: str) -> list[str]:
        return {
            "etcd": self._etcd_arguments,
            "kube-apiserver": self._api_server_arguments,
            "kube-controller-manager": self._controller_manager_arguments,
            "kube-scheduler": self._scheduler_arguments,
        }[component]()

    def _etcd_arguments(self) -> list[str]:
        client, peer = (f"https://127.0.0.1:{port}" for port in self._etcd)
        authority = self.pki / f"{ETCD_CA}.crt"
        certificate = self.pki / f"{ETCD}.crt"
        key = self.pki / f"{ETCD}.key"
        return [
            "--name=local",
            f"--data-dir={self.folder / 'etcd'}",
            # Nothing has to outlast a crash of the machine: each cluster begins empty.
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=local={peer}",
            "--client-cert-auth",
            f"--trusted-ca-file={authority}",
            f"--cert-file={certificate}",
            f"--key-file={key}",
            "--peer-client-cert-auth",
            f"--peer-trusted-ca-file={authority}",
            f"--peer-cert-file={certificate}",
            f"--peer-key-file={key}",
        ]

    def _api_server_arguments(self) -> list[str]:
        pki = self.pki
        return [
            f"--etcd-servers=https://127.0.0.1:{self._etcd[0]}",
            f"--etcd-cafile={pki / f'{ETCD_CA}.crt'}",
            f"--etcd-certfile={pki / f'{ETCD}.crt'}",
            f"--etcd-keyfile={pki / f'{ETCD}.key'}",
            # Whoever writes a binding for system:anonymous, by mistake too, would open the API to the whole machine.
            "--anonymous-auth=false",
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
            "--secure-port=0",  # no port: nothing here asks for their health or metrics
            *self.client_options,
        ]


def check_running(name: str, process: subprocess.Popen[bytes], *, log: Path) -> None:
    """Raises NotReady when the process has exited."""
    if process.poll() is not None:
        raise NotReady(f"{name} exited with code {process.returncode}: {read_end(log)}")


def answers(url: str, *, context: ssl.SSLContext | None = None) -> bool:
    """Returns whether a GET of the URL succeeds."""
    try:
        with urllib.request.urlopen(url, context=context, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        # An HTTPError holds its socket until it is closed.
        error.close()
    except OSError:
        pass
    return False


def write_identities(folder: Path, *, server: str) -> None:
    """Writes keys (readable by the owner only) into `folder/pki` and kubeconfigs into `folder`."""
    pki = folder / "pki"
    make_private(pki)
    now = datetime.now(UTC)
    ca = make_ca("railhead-local-ca", now=now, days=DAYS)
    _write(pki / "ca.crt", ca.certificate)
    private, public = make_signing_keys()
    _write(pki / "sa.key", private)
    _write(pki / "sa.pub", public)
    etcd_ca = make_ca("railhead-local-etcd-ca", now=now, days=DAYS)
    _write(pki / f"{ETCD_CA}.crt", etcd_ca.certificate)
    _write_pair(pki, ETCD, issue(etcd_ca, "etcd", now=now, days=DAYS, names=("127.0.0.1",)))
    _write_pair(pki, "apiserver", issue(ca, "kube-apiserver", now=now, days=DAYS, names=SERVER_NAMES))
    for name, (common_name, organization) in CLIENTS.items():
        names = ("127.0.0.1", NODE_NAME) if name == "node" else ()
        pair = issue(ca, common_name, now=now, days=DAYS, names=names, organization=organization)
        _write_pair(pki, name, pair)
        write_kubeconfig(folder / f"{name}.kubeconfig", server=server, pki=pki, user=name)


def write_kubeconfig(path: Path, *, server: str, pki: Path, user: str = "", token: str = "") -> None:
    """Writes an ordinary kubeconfig, with a client certificate or a token."""
    if token:
        credentials = {"token": token}
    else:
        credentials = {"client-certificate": str(pki / f"{user}.crt"), "client-key": str(pki / f"{user}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "railhead", "cluster": {"server": server, "certificate-authority": str(pki / "ca.crt")}}],
        "users": [{"name": user or "token", "user": credentials}],
        "contexts": [{"name": "railhead", "context": {"cluster": "railhead", "user": user or "token"}}],
        "current-context": "railhead",
    }
    _write(path, yaml.safe_dump(config))


def _write_pair(pki: Path, name: str, pair: Pair) -> None:
    _write(pki / f"{name}.crt", pair.certificate)
    _write(pki / f"{name}.key", pair.key)


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
