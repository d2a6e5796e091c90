"""The cluster of the end-to-end tests: their own local one, or that of KUBECONFIG.

The tests use only kubectl and this class; the differences between a local node and a real
one (how an operator is killed, how a volume is read) are only here.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railhead.local.install import Kubectl
from tests import waiting
from tests.waiting import NotInTime

Object = dict[str, Any]
OPERATOR_NAMESPACE = "railhead-system"
OPERATOR_LABEL = "app.kubernetes.io/name=railhead,app.kubernetes.io/component=operator"
ENDS = ("Succeeded", "Failed")
READER = "reader"
# Bounds a hang; it says nothing of how long anything takes. On a slow machine with two jobs the ranks of one import
# torch for two minutes.
PATIENCE = 600.0


def wait_until(what: str, ask: Callable[[], Any], *, tell: Callable[[], str] = str) -> Any:
    """As elsewhere, but with longer intervals: each poll is a kubectl, as a user would call it."""
    return waiting.wait_until(what, ask, seconds=PATIENCE, tell=tell)


@dataclass
class Cluster:
    """One namespace of one cluster.

    Attributes:
        image: of the jobs' pods.
        volume_folder: a folder of the node for volumes of the tests; None if claims are provisioned dynamically.
        operator_pid: finds the local operator's process; None if the operator is a pod.
    """

    kubectl: Kubectl
    namespace: str
    image: str
    volume_folder: Path | None = None
    operator_pid: Callable[[], int] | None = None

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        return self.kubectl("-n", self.namespace, *arguments, stdin=stdin)

    def get(self, kind: str, name: str) -> Object:
        """The object, or nothing."""
        text = self(*("get", kind, name, "-o", "json", "--ignore-not-found"))
        return json.loads(text) if text else {}

    def apply(self, *documents: Object) -> None:
        for document in documents:
            self("apply", "-f", "-", stdin=json.dumps(document))

    def job(self, name: str) -> Object:
        return self.get("trainjobs.railhead.dev", name)

    def status(self, name: str) -> Object:
        return self.job(name).get("status") or {}

    def pods(self, job: str) -> list[Object]:
        items = json.loads(self("get", "pods", "-l", f"railhead.dev/job-name={job}", "-o", "json"))["items"]
        return sorted(items, key=lambda p: str(p["metadata"]["name"]))

    def pod_names(self, job: str) -> list[str]:
        return [str(p["metadata"]["name"]) for p in self.pods(job)]

    def head_pod(self, job: str) -> str:
        """The name of the one head pod, even while worker pods are still terminating."""
        [head] = [name for name in self.pod_names(job) if name.endswith("-head")]
        return head

    def log(self, pod: str) -> str:
        return self("logs", pod)

    def wait_phase(self, job: str, *phases: str) -> Object:
        """The status once the job is in one of these phases; fails at once if it ends in another."""

        def ask() -> Object | None:
            status = self.status(job)
            if status.get("phase") in phases:
                return status
            if status.get("phase") in ENDS:
                raise NotInTime(f"{job} ended as {status['phase']}, wanted {phases}\n{self.tell(job)}")
            return None

        found: Object = wait_until(f"{job} in {phases}", ask, tell=lambda: self.tell(job))
        return found

    def wait_end(self, job: str) -> Object:
        return self.wait_phase(job, *ENDS)

    def tell(self, job: str) -> str:
        """Everything needed to understand a failure."""
        parts = [json.dumps(self.status(job), indent=1)]
        for pod in self.pods(job):
            name = pod["metadata"]["name"]
            try:
                parts.append(f"--- {name} {pod['status'].get('phase')}\n{self('logs', name, '--tail=30')}")
            except Exception as error:
                parts.append(f"--- {name}: {error}")
        return "\n".join(parts)

    def delete_job(self, name: str) -> None:
        self("delete", "trainjobs.railhead.dev", name, "--ignore-not-found", "--wait=false")
        wait_until(f"{name} and its pods gone", lambda: not self.job(name) and not self.pods(name))

    def kill_operator(self) -> None:
        """By SIGKILL, or the closest equivalent on a cluster; returns once another one is ready."""
        if self.operator_pid is not None:
            pid = self.operator_pid()
            os.kill(pid, signal.SIGKILL)
            wait_until("another operator", lambda: self.operator_pid() not in (pid, 0))  # type: ignore[misc]
            return
        before = self._operator_pods()
        self.kubectl("-n", OPERATOR_NAMESPACE, "delete", "pods", *before, "--grace-period=0", "--force")
        wait_until(
            "another operator", lambda: any(self._operator_pods()[n] for n in self._operator_pods().keys() - before)
        )

    def _operator_pods(self) -> dict[str, bool]:
        """Whether each pod of the operator is ready."""
        text = self.kubectl("-n", OPERATOR_NAMESPACE, "get", "pods", "-l", OPERATOR_LABEL, "-o", "json")
        return {str(pod["metadata"]["name"]): _is_ready(pod) for pod in json.loads(text)["items"]}

    @property
    def is_local(self) -> bool:
        return self.operator_pid is not None

    def read_file(self, claim: str, path: str) -> bytes:
        """A file of a volume: from its folder in local mode, elsewhere by a pod that mounts the claim."""
        if self.is_local:
            return (self._find_folder(claim) / path).read_bytes()
        code = f"import base64; print(base64.b64encode(open('/volume/{path}', 'rb').read()).decode())"
        return base64.b64decode(self.run_python(code, claim=claim).strip(), validate=True)

    def make_file(self, claim: str, path: str) -> None:
        """Creates an empty file, in the same way."""
        if self.is_local:
            (self._find_folder(claim) / path).touch()
        else:
            self.run_python(f"open('/volume/{path}', 'w')", claim=claim)

    def _find_folder(self, claim: str) -> Path:
        volume = str(self.get("persistentvolumeclaims", claim)["spec"]["volumeName"])
        return Path(json.loads(self.kubectl("get", "pv", volume, "-o", "json"))["spec"]["hostPath"]["path"])

    def run_python(self, code: str, *, claim: str | None = None) -> str:
        """The output of a pod with the jobs' image; the claim is its /volume."""
        self.apply(build_reader(self.image, code, claim=claim))
        try:
            done = lambda: self.get("pod", READER)["status"].get("phase") in ENDS  # noqa: E731
            wait_until(f"pod {READER} ended", done, tell=lambda: str(self.get("pod", READER)["status"]))
            return self.log(READER)
        finally:
            self("delete", "pod", READER, "--grace-period=0", "--force")

    def find_missing(self, packages: Sequence[str]) -> list[str]:
        """Which of these modules the jobs' image cannot import; in local mode jobs run in the tests' environment."""
        code = f"import importlib.util as u; print(*[p for p in {list(packages)!r} if u.find_spec(p) is None])"
        if self.is_local:
            return [package for package in packages if importlib.util.find_spec(package) is None]
        return self.run_python(code).split()

    def provide_claim(self, name: str, *, mode: str = "ReadWriteMany") -> None:
        """A claim that pods can write to, on every node by default; on a real node with a static volume behind it."""
        spec: Object = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        if self.volume_folder is not None:
            folder = self.volume_folder / self.namespace / name
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
            volume = f"{self.namespace}-{name}"
            self.kubectl("delete", "pv", volume, "--ignore-not-found")  # of a killed run: it stays bound forever
            spec |= {"storageClassName": "", "volumeName": volume}
            self.apply(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": volume, "labels": {"railhead.dev/test": self.namespace}},
                    "spec": {
                        "capacity": {"storage": "1Gi"},
                        "accessModes": [mode],
                        "storageClassName": "",
                        "hostPath": {"path": str(folder)},
                    },
                }
            )
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        self.apply(claim)

    def remove(self) -> None:
        """Removes the namespace with its contents, and the volumes behind it."""
        self.kubectl("delete", "namespace", self.namespace, "--wait=false")
        find = ("get", "namespace", self.namespace, "--ignore-not-found", "-o", "name")
        wait_until(f"namespace {self.namespace} gone", lambda: not self.kubectl(*find).strip())
        if self.volume_folder is not None:
            self.kubectl("delete", "pv", "-l", f"railhead.dev/test={self.namespace}", "--ignore-not-found")
            shutil.rmtree(self.volume_folder / self.namespace, ignore_errors=True)


def build_reader(image: str, code: str, *, claim: str | None = None) -> Object:
    """A pod that runs a line of Python and exits."""
    container: Object = {
        "name": "reader",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", code],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: Object = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if claim is not None:
        container["volumeMounts"] = [{"name": "volume", "mountPath": "/volume"}]
        spec["volumes"] = [{"name": "volume", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": READER}, "spec": spec}


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
