"""helm as a user runs it, and the objects of its releases."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.local.install import Kubectl
from tests.e2e.cluster import Cluster, wait_until

Object = dict[str, Any]
CRD = "trainjobs.railhead.dev"
# All pods of a local node share the machine's ports, but have their own addresses.
LOCAL = {
    "extraEnv": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    "extraArgs": ["--report-listen=$(POD_IP):8443", "--probe-listen=$(POD_IP):8080"],
}


def split_image(name: str) -> Object:
    """REPOSITORY:TAG as values of the chart."""
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}


@dataclass(frozen=True)
class Target:
    """A cluster to install into.

    Attributes:
        image: for the jobs' pods.
        values: that the chart needs there.
        is_local, volume_folder: as in tests.e2e.cluster.Cluster.
    """

    kubectl: Kubectl
    kubeconfig: Path
    image: str
    values: Mapping[str, Any]
    is_local: bool = False
    volume_folder: Path | None = None


@dataclass
class Releases:
    """The chart in one cluster."""

    chart: Path
    helm: Path
    target: Target
    namespaces: list[Cluster] = field(default_factory=list)
    installed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def kubectl(self) -> Kubectl:
        return self.target.kubectl

    def __call__(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """The output of helm. Raises AssertionError with its error message and the operator's logs."""
        command = [str(self.helm), "--kubeconfig", str(self.target.kubeconfig), *arguments]
        text = None if values is None else json.dumps(values)
        if text is not None:
            command += ["-f", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=660)
        assert done.returncode == 0, done.stderr + self._describe()
        return done.stdout

    def install(self, name: str, namespace: str, **values: Any) -> None:
        """Returns when helm reports that it is ready."""
        options = ("-n", namespace, "--create-namespace", "--wait", "--timeout", "600s")
        self("install", name, str(self.chart), *options, values={**self.target.values, **values})
        self.installed.append((name, namespace))

    def uninstall(self, name: str, namespace: str) -> None:
        self("uninstall", name, "-n", namespace, "--wait", "--timeout", "600s")
        self.installed.remove((name, namespace))

    def make_namespace(self, name: str) -> Cluster:
        """A namespace for jobs, with a claim for their runs."""
        self.kubectl("create", "namespace", name)
        cluster = Cluster(self.kubectl, name, self.target.image, self.target.volume_folder)
        cluster.operator_pid = (lambda: 0) if self.target.is_local else None
        self.namespaces.append(cluster)
        wait_until("the default service account", lambda: self.kubectl.has_service_account(name))
        cluster.provide_claim("runs")
        return cluster

    def deployment(self, name: str, namespace: str) -> Object:
        text = self.kubectl("get", "deployment", name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else {}

    def operator_pods(self, namespace: str) -> list[Object]:
        selector = "app.kubernetes.io/component=operator"
        found: list[Object] = json.loads(self.kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "json"))[
            "items"
        ]
        return found

    def remove_all(self) -> None:
        for name, namespace in list(self.installed):
            self.uninstall(name, namespace)
        for cluster in self.namespaces:
            cluster.remove()
        self.kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=50s")

    def _describe(self) -> str:
        parts = [self.kubectl("get", "pods", "-A", "-o", "wide")]
        for pod in json.loads(
            self.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/component=operator", "-o", "json")
        )["items"]:
            metadata = pod["metadata"]
            parts.append(self.kubectl("logs", "-n", metadata["namespace"], metadata["name"], "--tail=20"))
        return "\n".join(parts)
