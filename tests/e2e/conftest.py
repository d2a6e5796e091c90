"""The cluster of the end-to-end tests: KUBECONFIG's with --kubeconfig, else their own local one.

Processes of pytest-xdist share KUBECONFIG's cluster and the operator in it; each has its own namespace.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl, KubectlFailed, load_manifests
from railhead.local.session import Session, default_capacity
from tests.e2e.cluster import OPERATOR_NAMESPACE, Cluster, wait_until

PROJECT = Path(__file__).resolve().parents[2]
NAMESPACE = "railhead-e2e"


@pytest.fixture(scope="package")
def session_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[Cluster]:
    option = request.config.getoption
    if option("--kubeconfig"):
        kubectl = Kubectl(Path(option("--kubectl")), Path(option("--kubeconfig")))
        folder = option("--volume-folder")
        namespace, run = NAMESPACE, tmp_path_factory.getbasetemp()
        if worker_id != "master":
            namespace, run = f"{NAMESPACE}-{worker_id}", run.parent
        if option("--operator-image"):
            install_once(kubectl, option("--operator-image"), run / "operator-installed")
        yield Cluster(kubectl, namespace, option("--image"), volume_folder=Path(folder) if folder else None)
        return
    image = option("--image")
    with tempfile.TemporaryDirectory(prefix="railhead-e2e-", ignore_cleanup_errors=True) as name:
        session = Session(Path(name))
        echo = lambda text: print(text, file=sys.stderr)  # noqa: E731
        session.up(default_capacity(gpus=8), binaries=resolve(echo), echo=echo, is_ours_only=True)
        try:

            def operator_pid() -> int:
                found = session.state().processes.get("operator")
                return found.pid if found else 0

            yield Cluster(Kubectl(session.kubectl, session.kubeconfig), NAMESPACE, image, operator_pid=operator_pid)
        finally:
            session.down()


def install_once(kubectl: Kubectl, image: str, mark: Path) -> None:
    """The first process of a run installs; the others wait for it. A failure repeats in each of them."""
    with open(mark, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if file.seek(0, os.SEEK_END) == 0:
            install_operator(kubectl, image)
            file.write(image)


def install_operator(kubectl: Kubectl, image: str) -> None:
    """The CRD and the manifests of the checkout, with another image."""
    documents = load_manifests()
    for document in documents:
        if document["kind"] == "Deployment":
            [container] = document["spec"]["template"]["spec"]["containers"]
            container |= {"image": image, "imagePullPolicy": "IfNotPresent"}
    documents.sort(key=lambda d: d["kind"] != "Namespace")
    kubectl.apply(documents)
    # The image may have changed under the same name.
    kubectl("-n", OPERATOR_NAMESPACE, "rollout", "restart", "deployment/railhead-operator")
    ask = ("-n", OPERATOR_NAMESPACE, "rollout", "status", "deployment/railhead-operator", "--watch=false")
    wait_until("the operator's rollout", lambda: "successfully rolled out" in kubectl(*ask))


@pytest.fixture(scope="package")
def cluster(session_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a namespace that enforces Pod Security "restricted", and a claim named runs."""
    kubectl = session_cluster.kubectl
    kubectl("create", "namespace", session_cluster.namespace)
    kubectl("label", "namespace", session_cluster.namespace, "pod-security.kubernetes.io/enforce=restricted")
    session_cluster.provide_claim("runs")

    def has_account() -> bool:
        try:
            return bool(session_cluster.get("serviceaccounts", "default"))
        except KubectlFailed:
            return False

    wait_until("the default service account", has_account)
    yield session_cluster
    session_cluster.remove()
