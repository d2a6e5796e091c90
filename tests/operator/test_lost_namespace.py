"""An operator with Roles in two namespaces, of which one is deleted: the jobs of the other notice nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.install import Kubectl
from tests.api.server import ApiServer
from tests.chart.chart import Rendered
from tests.operator.account import make_account
from tests.operator.audit import AuditLog
from tests.operator.cluster import Cluster, Object
from tests.operator.conftest import make_cluster
from tests.operator.proxy import FaultyProxy
from tests.operator.running import RunningOperator
from tests.waiting import wait_until

OPERATOR_NAMESPACE = "lost-operator"
RETURN_SECONDS = 60.0


@dataclass
class Pair:
    """Two namespaces with Roles for one operator, which reaches the API server through the proxy."""

    lost: Cluster
    kept: Cluster
    proxy: FaultyProxy
    kubectl: Kubectl
    rights: list[Object]

    @property
    def operator(self) -> RunningOperator:
        return self.kept.operator

    def delete_namespace(self) -> None:
        path = f"/api/v1/namespaces/{self.lost.namespace}"
        assert self.lost.server.request("DELETE", path).status == 200
        wait_until("its end", lambda: self.lost.server.request("GET", path).status == 404)

    def create_namespace(self) -> None:
        """With its Role, as `helm upgrade` does."""
        self.kubectl("create", "namespace", self.lost.namespace)
        self.kubectl.apply([right for right in self.rights if right["metadata"]["namespace"] == self.lost.namespace])

    def is_refused(self, resource: str) -> bool:
        sample = f'railhead_refused_watches{{namespace="{self.lost.namespace}",resource="{resource}"}} 1.0'
        return sample in self.operator.metrics()

    def lose_worker(self) -> None:
        """In the namespace that is kept; returns when it is replaced. An operator that has never seen the pod run makes
        it again under its name."""
        worker = self._find_worker()
        self.kept.remove_pod(worker)
        self.kept.run_pod(wait_until("its replacement", lambda: self._find_worker(but=worker["metadata"]["uid"])))

    def _find_worker(self, *, but: str = "") -> Object:
        """An empty object if there is none."""
        pods = self.kept.pods("kept").items()
        return next((pod for name, pod in pods if "-w0-" in name and pod["metadata"]["uid"] != but), {})


@pytest.fixture
def pair(
    audited_plane: tuple[ControlPlane, AuditLog], server: ApiServer, operator: RunningOperator, tmp_path: Path
) -> Iterator[Pair]:
    """The other tests' operator rests meanwhile."""
    plane = audited_plane[0]
    lost, kept = make_cluster(server, operator), make_cluster(server, operator)
    values = {"watchNamespaces": [lost.namespace, kept.namespace]}
    kubeconfig = tmp_path / "pair.kubeconfig"
    operator.rest()
    with FaultyProxy(plane) as proxy, make_account(plane, OPERATOR_NAMESPACE, values, kubeconfig) as rendered:
        kubeconfig.write_text(kubeconfig.read_text().replace(plane.server, proxy.url))
        flags = [arg for arg in rendered.container["args"] if arg.startswith("--watch-namespace")]
        own = RunningOperator(kubeconfig, tmp_path, namespace=OPERATOR_NAMESPACE, flags=flags)
        own.start()
        try:
            yield Pair(
                replace(lost, operator=own),
                replace(kept, operator=own),
                proxy,
                Kubectl(plane.binaries / "kubectl", plane.kubeconfig),
                _rights(rendered),
            )
        finally:
            print(own.log.read_text()[-4000:], file=sys.stderr)
            own.stop()


def _rights(rendered: Rendered) -> list[Object]:
    return [document for kind in ("Role", "RoleBinding") for document in rendered.of(kind)]


def start_job(cluster: Cluster, name: str) -> None:
    cluster.apply(name)
    for pod in cluster.wait_pods(name, 3).values():
        cluster.run_pod(pod)
    cluster.wait_phase(name, "Starting")


def test_the_end_of_one_namespace_costs_no_other_anything_and_its_return_needs_nobody(pair: Pair) -> None:
    start_job(pair.lost, "lost")
    start_job(pair.kept, "kept")
    pair.delete_namespace()
    pair.proxy.cut_watches()  # the API server asks for rights when a watch begins
    wait_until("the refusal", lambda: pair.is_refused("pods"))
    pair.lose_worker()

    pair.operator.stop()
    pair.operator.start()
    assert pair.is_refused("pods")
    pair.lose_worker()
    wait_until("the refusal", lambda: pair.is_refused("trainjobs"))

    pair.create_namespace()
    pair.lost.apply("young")
    wait_until("its pods", lambda: len(pair.lost.pods("young")) == 3, seconds=RETURN_SECONDS)
    assert not pair.is_refused("pods") and not pair.is_refused("trainjobs")
