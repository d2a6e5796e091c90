"""Installs Railhead into a local cluster with kubectl, from the same manifests as on any cluster.

The operator gets a token of its own service account: a permission that its role lacks is
missing here just as on any other cluster. Only what runs as a process here is left out.
"""

from __future__ import annotations

import copy
import functools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

import railhead
from railhead.json_object import Object
from railhead.local import LocalError
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.servers import write_kubeconfig

NAMESPACE = "railhead-system"
RBAC = "rbac.authorization.k8s.io"
TOKEN_DURATION = "8760h"
RUN_AS_PROCESSES = {"Deployment", "Service"}
TIMEOUT_SECONDS = 60


class KubectlFailed(LocalError):
    """kubectl failed; the message is its stderr."""


class Kubectl:
    """The session's kubectl, with an administrator's kubeconfig."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self.program = program
        self.kubeconfig = kubeconfig
        self._command = [str(program), "--kubeconfig", str(kubeconfig)]

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Returns its stdout. Raises KubectlFailed."""
        done = subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise KubectlFailed(done.stderr.strip() or f"kubectl {arguments[0]} exited with code {done.returncode}")
        return done.stdout

    def apply(self, documents: Sequence[Object]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        self("apply", "--server-side", "--force-conflicts", "--field-manager=railhead-local", "-f", "-", stdin=text)

    def has_service_account(self, namespace: str) -> bool:
        """Returns whether the namespace has its default account, which pods need and the controller manager creates."""
        return bool(self("get", "serviceaccount", "default", "-n", namespace, "--ignore-not-found", "-o", "name"))

    def is_node_ready(self, name: str) -> bool:
        """Returns whether the node exists, is ready, and has no taint of the control plane any more."""
        node = json.loads(self("get", "node", name, "--ignore-not-found", "-o", "json") or "{}")
        conditions = node.get("status", {}).get("conditions") or []
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return is_ready and not node["spec"].get("taints")


def find_manifests() -> Path:
    """Returns the package's only data file: install.yaml with the CRD and the operator's manifests.

    It is in the checkout's folder manifests; `railhead/data` links to it there, so that an
    installed package contains a copy.

    Raises:
        LocalError: with the expected path.
    """
    place = Path(railhead.__file__).parent / "data" / "install.yaml"
    if not place.is_file():
        raise LocalError(f"{place} is missing; reinstall Railhead")
    return place


def load_manifests() -> list[Object]:
    """Returns the CRD and the operator's objects. Raises LocalError."""
    return copy.deepcopy(_parse_manifests())


@functools.cache
def _parse_manifests() -> list[Object]:
    # The loader in Python takes most of a second; a PyYAML that was built without libyaml has no other.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(find_manifests().read_text(), Loader=loader) if document]


def select_installed(documents: Sequence[Object]) -> list[Object]:
    """Returns the objects to install, namespaces first: all but those that run as processes of the session."""
    kept = [d for d in documents if d.get("kind") not in RUN_AS_PROCESSES]
    namespaces = [d for d in kept if d["kind"] == "Namespace"]
    return namespaces + [d for d in kept if d["kind"] != "Namespace"]


def build_node_role(node: str) -> list[Object]:
    """Returns the permissions that the node agent needs beyond a kubelet's: it provides volumes as folders."""
    rules = [
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get", "create"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["create"]},
    ]
    return _grant("railhead:local-volumes", rules, {"apiGroup": RBAC, "kind": "User", "name": f"system:node:{node}"})


def build_metrics_role() -> list[Object]:
    """Returns the permission that the chart adds with metrics.authentication: to ask what a reader of /metrics may."""
    account = service_account_name(load_manifests())
    rules = [{"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}]
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": account}
    return _grant("railhead:local-metrics", rules, subject)


def _grant(name: str, rules: Sequence[Object], subject: Object) -> list[Object]:
    """Returns a ClusterRole of this name, and its binding to the subject."""
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]


def install(kubectl: Kubectl) -> None:
    """Installs Railhead, except for what runs as a process. Raises LocalError."""
    kubectl.apply(select_installed(load_manifests()))
    crd = "crd/trainjobs.railhead.dev"
    timeout = "--timeout=30s"
    kubectl("wait", "--for=jsonpath={.status.acceptedNames.kind}=TrainJob", crd, timeout)
    # Fails as long as a new CRD has no list of conditions.
    kubectl("wait", "--for=condition=Established", crd, timeout)


def service_account_name(documents: Sequence[Object]) -> str:
    """Returns the name of the operator's service account, as in the manifests."""
    return str(next(d["metadata"]["name"] for d in documents if d.get("kind") == "ServiceAccount"))


def make_operator_kubeconfig(kubectl: Kubectl, plane: ControlPlane, path: Path) -> None:
    account = service_account_name(load_manifests())
    token = kubectl("create", "token", account, "-n", NAMESPACE, f"--duration={TOKEN_DURATION}").strip()
    write_kubeconfig(path, server=plane.server, pki=plane.pki, token=token)
