"""The control plane of one turn, with what the operator under test needs in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from benchmarks.command import find_folder
from benchmarks.machine import wait_until_quiet
from benchmarks.scale.subject import Subject
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.servers import write_kubeconfig
from railhead.local.install import Kubectl

NAMESPACE = "bench"
ACCOUNT = "bench-operator"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BARE = ("etcd", "kube-apiserver")


@contextmanager
def start_plane(
    binaries: Path, components: Sequence[str], client_options: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """In a folder of its own, once the machine is quiet. Removed afterwards."""
    folder = Path(tempfile.mkdtemp(dir=find_folder(), prefix="scale-"))
    plane = ControlPlane(folder, binaries=binaries, client_options=client_options)
    try:
        wait_until_quiet()
        plane.start(components)
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


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
    if subject.install:
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
