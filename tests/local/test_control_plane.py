"""A real control plane: what it serves, what it enforces, and that two are isolated."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.servers import ALL, NotReady
from railhead.local.install import Kubectl, KubectlFailed, find_manifests, install, make_operator_kubeconfig
from railhead.local.processes import identify, is_alive

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "claim", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "by-hand",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "by-hand"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "by-hand",
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/nowhere"},
    },
}

EMPTY = "kube-node-lease"  # a namespace without jobs of other tests on the same API server


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Kubectl:
    return Kubectl(control_plane.binaries / "kubectl", control_plane.kubeconfig)


def test_versions_are_pinned(kubectl: Kubectl) -> None:
    versions = json.loads(kubectl("version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"] == "v1.36.3"


def test_everything_listens_on_loopback_only(control_plane: ControlPlane) -> None:
    public = {f"socket:[{line.split()[9]}]" for line in listening_lines() if not line.split()[1].startswith("0100007F")}
    for pid in control_plane.pids().values():
        links = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
        assert not links & public


def listening_lines() -> list[str]:
    """The listening sockets in /proc/net/tcp and tcp6."""
    lines = [*Path("/proc/net/tcp").read_text().splitlines()[1:], *Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    return [line for line in lines if line.split()[3] == "0A"]


def test_controllers_work(kubectl: Kubectl) -> None:
    """Claims are bound, and new namespaces get a service account."""
    kubectl.apply([VOLUME, CLAIM])
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/claim", "--timeout=60s")
    kubectl("create", "namespace", "with-account")
    kubectl("wait", "--for=create", "serviceaccount/default", "-n", "with-account", "--timeout=60s")


def test_installation_is_complete_and_can_be_repeated(kubectl: Kubectl) -> None:
    install(kubectl)
    install(kubectl)
    assert kubectl("get", "rtj", "-n", EMPTY) == ""


def test_operators_role_is_enforced(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    install(kubectl)
    make_operator_kubeconfig(kubectl, control_plane, tmp_path / "operator.kubeconfig")
    operator = Kubectl(control_plane.binaries / "kubectl", tmp_path / "operator.kubeconfig")
    operator("get", "trainjobs.railhead.dev", "-A")
    with pytest.raises(KubectlFailed, match=r"secrets is forbidden: User .*railhead-operator"):
        operator("get", "secrets", "-A")
    with pytest.raises(KubectlFailed, match="nodes is forbidden"):
        operator("get", "nodes")


def test_unknown_users_are_rejected(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "guessed"}
    (tmp_path / "stranger").write_text(yaml.safe_dump(config))
    stranger = Kubectl(control_plane.binaries / "kubectl", tmp_path / "stranger")
    with pytest.raises(KubectlFailed, match=r"Unauthorized|must be logged in"):
        stranger("get", "namespaces")


def test_manifests_of_the_operator_are_valid(kubectl: Kubectl) -> None:
    """Including those that a local cluster does not install."""
    install(kubectl)
    kubectl("apply", "--dry-run=server", "-f", str(find_manifests()))


def test_two_control_planes_are_isolated(control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path) -> None:
    other = ControlPlane(tmp_path / "other", binaries=control_plane.binaries)
    other.start(("etcd", "kube-apiserver"))
    try:
        other_kubectl = Kubectl(control_plane.binaries / "kubectl", other.kubeconfig)
        other_kubectl("create", "namespace", "only-here")
        assert "only-here" not in kubectl("get", "namespaces")
        servers = [identify(pid) for pid in other.pids().values()]
        assert len(servers) == 2 and None not in servers
    finally:
        other.stop()
    assert not any(server and is_alive(server) for server in servers)
    assert kubectl("get", "--raw", "/readyz") == "ok"
    control_plane.check()
    assert set(control_plane.pids()) == set(ALL)


def test_output_of_a_server_that_exits_is_quoted(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Here: etcd, whose data folder is a file."""
    (tmp_path / "plane").mkdir()
    (tmp_path / "plane" / "etcd").write_text("")
    plane = ControlPlane(tmp_path / "plane", binaries=control_plane.binaries)
    try:
        with pytest.raises(NotReady, match=r"(?s)etcd exited with code \d+: .*not a directory"):
            plane.start(("etcd",))
    finally:
        plane.stop()


def test_a_stock_kubectl_works(control_plane: ControlPlane) -> None:
    done = subprocess.run(
        [
            str(control_plane.binaries / "kubectl"),
            "--kubeconfig",
            str(control_plane.kubeconfig),
            "get",
            "--raw",
            "/livez",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "ok"
    assert identify(control_plane.pids()["etcd"]) is not None
