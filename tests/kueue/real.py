"""Kueue's own program on the test's API server: its chart but for what runs as pods, and its manager as a process.

The folder that RAILHEAD_KUEUE names has the manager, `kueue`, and the chart of the same version, `chart`.
"""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tools.helm import resolve_helm

from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.servers import answers, check_running, write_kubeconfig
from railhead.local.install import Kubectl
from railhead.local.processes import end_child, spawn
from tests.api.server import ApiServer
from tests.chart.chart import Chart
from tests.kueue.client import Installation, Kueue, remove_definitions
from tests.kueue.definitions import API
from tests.kueue.workload import Object
from tests.waiting import wait_until

NAMESPACE = "kueue-system"
HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
INSTALLED = ("ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", *HOOKS)
DEFINITION = "CustomResourceDefinition"
# The aggregator would have to reach the first. The second is off by default in 0.19 only: without it the reason of a
# Workload that waits is Pending or Inadmissible, and the job says Queued or Inadmissible.
GATES = {"VisibilityOnDemand": False, "UnadmittedWorkloadsObservability": True}
QUIET_SECONDS = 1.0


class RealInstallation(Installation):
    """One manager, with the rights of its chart."""

    def __init__(self, folder: Path, *, source: Path, server: ApiServer, plane: ControlPlane) -> None:
        """`folder` is for what it writes; `source` is RAILHEAD_KUEUE's."""
        self._folder, self._server, self._plane = folder, server, plane
        self._kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
        self._program = source / "kueue"
        self._objects = Chart(source / "chart", resolve_helm(print)).render(release="kueue", namespace=NAMESPACE)
        self._webhook_port, self._probe_port = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "kueue.log"

    def install(self) -> None:
        self._kubectl.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        wait_until("its namespace", lambda: self._kubectl.has_service_account(NAMESPACE))
        kept = [each for each in self._objects.objects if each["kind"] in (*INSTALLED, DEFINITION)]
        self._kubectl.apply([*(self._direct(each) for each in kept), self._build_service()])
        kinds = [f"crd/{each['metadata']['name']}" for each in self._objects.of(DEFINITION)]
        self._kubectl("wait", "--for=condition=Established", *kinds, "--timeout=30s")
        account = self._objects.one("ServiceAccount")["metadata"]["name"]
        token = self._kubectl("create", "token", account, "-n", NAMESPACE).strip()
        write_kubeconfig(self._folder / "kubeconfig", server=self._plane.server, pki=self._plane.pki, token=token)
        self.start()

    def remove(self) -> None:
        self.stop()
        for kind in HOOKS:
            self._kubectl("delete", kind, self._objects.one(kind)["metadata"]["name"])
        remove_definitions(self._server, [each["metadata"]["name"] for each in self._objects.of(DEFINITION)])

    def at(self, namespace: str) -> RealKueue:
        return RealKueue(self._server, namespace, self)

    def start(self, **configuration: Any) -> None:
        """Until the manager is ready; the API server reaches its webhooks then."""
        path = self._folder / "configuration.yaml"
        path.write_text(yaml.safe_dump(self._configure(configuration)))
        environment = {"KUBECONFIG": str(self._folder / "kubeconfig")}
        command = [str(self._program), f"--config={path}", "--zap-log-level=2"]
        self._process = spawn(command, log=self.log, env=environment)
        wait_until("Kueue is ready", self._is_ready, seconds=60, tell=lambda: self.log.read_text()[-3000:])

    @contextmanager
    def configured(self, **configuration: Any) -> Iterator[None]:
        """Meanwhile the manager has these fields of its Configuration."""
        self.stop()
        try:
            self.start(**configuration)
            yield
        finally:
            self.stop()
            self.start()

    def stop(self) -> None:
        if self._process is not None:
            end_child(self._process, grace_seconds=0)
            self._process = None

    def _is_ready(self) -> bool:
        assert self._process is not None
        check_running("Kueue", self._process, log=self.log)
        self._mount_certificate()
        return answers(f"http://127.0.0.1:{self._probe_port}/readyz")

    def _mount_certificate(self) -> None:
        """As the kubelet: Kueue writes its certificate into a Secret, and reads it from the volume."""
        name = self._objects.one("Secret")["metadata"]["name"]
        answer = self._server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
        self._certificates.mkdir(exist_ok=True)
        for key, value in sorted((answer.body.get("data") or {}).items(), reverse=True):
            path, content = self._certificates / key, base64.b64decode(value)
            if not path.exists() or path.read_bytes() != content:  # a running manager never reads half a file
                partial = path.with_suffix(".partial")
                partial.write_bytes(content)
                partial.rename(path)

    @property
    def _certificates(self) -> Path:
        return self._folder / "certificates"

    def _configure(self, more: Mapping[str, Any]) -> Object:
        """The chart's configuration, on loopback."""
        text = self._objects.one("ConfigMap")["data"]["controller_manager_config.yaml"]
        return {
            **yaml.safe_load(text),
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._probe_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._webhook_port, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": False},
            "featureGates": GATES,
            **more,
        }

    def _build_service(self) -> Object:
        """The API server takes a Service with an external name to that host, and still expects the Service's name
        in the certificate."""
        metadata = {"name": "kueue-webhook-service", "namespace": NAMESPACE}
        spec = {"type": "ExternalName", "externalName": "localhost"}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    def _direct(self, body: Object) -> Object:
        """The object, with the manager's port wherever it names the webhooks' Service."""
        for found in _find_services(body):
            found["port"] = self._webhook_port
        return body


def _find_services(body: Object) -> Iterator[Object]:
    conversion = body.get("spec", {}).get("conversion", {}).get("webhook")
    for hook in (*body.get("webhooks", ()), *([conversion] if conversion else ())):
        yield hook["clientConfig"]["service"]


@dataclass
class RealKueue(Kueue):
    installation: RealInstallation

    def make_check(self, name: str) -> None:
        """With the condition by which its controller says that it is there."""
        self.create("admissionchecks", "AdmissionCheck", name, controllerName="railhead.dev/test")
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        path = f"{API}/admissionchecks/{name}/status"
        self.merge(path, {"status": {"conditions": [condition]}})

    @contextmanager
    def expect_pods(self, *, seconds: int, backoff_seconds: int) -> Iterator[None]:
        strategy = {"timestamp": "Eviction", "backoffBaseSeconds": backoff_seconds}
        with self.installation.configured(waitForPodsReady={"timeout": f"{seconds}s", "requeuingStrategy": strategy}):
            yield

    def run_once(self) -> int:
        """It runs by itself."""
        return 0

    def settle(self) -> None:
        """Kueue says nowhere that it has no more to do: until no Workload has changed for a second."""
        seen, since = self._versions(), time.monotonic()

        def is_quiet() -> bool:
            nonlocal seen, since
            if (now := self._versions()) != seen:
                seen, since = now, time.monotonic()
            return time.monotonic() - since > QUIET_SECONDS

        wait_until("Kueue changes no Workload", is_quiet)

    def _versions(self) -> dict[str, str]:
        return {name: each["metadata"]["resourceVersion"] for name, each in self.list().items()}
