"""A control plane with an audit log of the operator's requests, an operator, and a namespace for each test."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve
from railhead.local.control_plane.gangs import find_gang_options
from railhead.local.install import Kubectl, install, make_operator_kubeconfig
from tests.api.server import ApiServer
from tests.kueue.client import Installation
from tests.operator.audit import AuditLog
from tests.operator.cluster import Cluster
from tests.operator.queue_stage import Stage
from tests.operator.running import RunningOperator
from tests.operator.served_kueue import serve_kueue
from tests.waiting import wait_until

LED = ("--leader-election", "--lease-seconds=3")
NUMBERS = itertools.count(1)


@pytest.fixture(scope="package")
def audited_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, AuditLog]]:
    folder = tmp_path_factory.mktemp("audited")
    audit = AuditLog(folder / "audit")
    binaries = resolve(lambda text: print(text, file=sys.stderr))
    plane = ControlPlane(
        folder / "plane",
        binaries=binaries,
        api_server_options=(*audit.api_server_options, *find_gang_options(binaries).api_server),
        disabled_controllers=["pod-garbage-collector"],  # it deletes pods that are bound to missing nodes
    )
    try:
        plane.start(("etcd", "kube-apiserver", "kube-controller-manager"))  # the tests bind pods themselves
        yield plane, audit
    finally:
        plane.stop()


@pytest.fixture(scope="package")
def audit(audited_plane: tuple[ControlPlane, AuditLog]) -> AuditLog:
    return audited_plane[1]


def run_operator(plane: ControlPlane, folder: Path) -> Iterator[RunningOperator]:
    """Installs what an operator needs, and yields one that rests until a test wakes it."""
    kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
    install(kubectl)
    make_operator_kubeconfig(kubectl, plane, folder / "operator.kubeconfig")
    operator = RunningOperator(folder / "operator.kubeconfig", folder)
    yield operator
    operator.stop()


@pytest.fixture(scope="package")
def operator(
    audited_plane: tuple[ControlPlane, AuditLog], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOperator]:
    """`cluster` wakes it. A fixture with an operator of its own lets it rest, and does not wake it: each start costs
    seconds of processor time, and the next fixture may have an operator of its own too."""
    yield from run_operator(audited_plane[0], tmp_path_factory.mktemp("operator"))


@pytest.fixture
def second_operator(operator: RunningOperator, tmp_path: Path) -> Iterator[RunningOperator]:
    """A second operator that does not know of the first: it leads, because the Lease is free."""
    second = RunningOperator(operator.kubeconfig, tmp_path)
    second.start(report_url=operator.report_url, flags=LED)
    wait_until("its lead", lambda: "leading as" in second.log.read_text())
    yield second
    second.stop()


@pytest.fixture(scope="package")
def server(audited_plane: tuple[ControlPlane, AuditLog]) -> Iterator[ApiServer]:
    server = ApiServer(audited_plane[0])
    yield server
    server.close()


def make_cluster(server: ApiServer, operator: RunningOperator) -> Cluster:
    """A new namespace, with its default service account."""
    namespace = f"stage-{next(NUMBERS)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert server.request("POST", "/api/v1/namespaces", body).status == 201
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_until("the default service account", lambda: server.request("GET", account).status == 200)
    return Cluster(server, operator, namespace)


@pytest.fixture
def cluster(server: ApiServer, operator: RunningOperator) -> Cluster:
    """The test's own namespace."""
    operator.wake()
    return make_cluster(server, operator)


@pytest.fixture
def other_cluster(server: ApiServer, operator: RunningOperator) -> Cluster:
    """A second one."""
    operator.wake()
    return make_cluster(server, operator)


@pytest.fixture(scope="module")
def installation(
    audited_plane: tuple[ControlPlane, AuditLog], server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Kueue, for the tests of one file."""
    with serve_kueue(server, audited_plane[0], tmp_path_factory.mktemp("kueue")) as kueue:
        yield kueue


@pytest.fixture(scope="module")
def kueue_operator(
    installation: Installation, operator: RunningOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOperator]:
    """With --kueue; the other tests' operator rests meanwhile."""
    own = RunningOperator(operator.kubeconfig, tmp_path_factory.mktemp("operator"), flags=["--kueue"])
    operator.rest()
    try:
        own.start()
        yield own
    finally:
        own.stop()


@pytest.fixture
def stage(server: ApiServer, kueue_operator: RunningOperator, installation: Installation) -> Iterator[Stage]:
    """A namespace for a queue, in which no quota may be left without pods in the end."""
    cluster = make_cluster(server, kueue_operator)
    stage = Stage(cluster, installation.at(cluster.namespace))
    yield stage
    stage.check_quota()
