"""An upgrade mid-run to an operator with another driver: an attempt keeps the driver that it started with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import railhead
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from tests.model.world import driver_of
from tests.operator.cluster import Cluster
from tests.operator.running import RunningOperator
from tests.waiting import wait_until


@pytest.fixture
def newer(operator: RunningOperator, tmp_path: Path) -> Iterator[RunningOperator]:
    """Another version, not started yet, whose driver differs in one line, and its Service in a field."""
    packages = tmp_path / "packages"
    source = Path(railhead.__file__).parent
    shutil.copytree(source, packages / "railhead", ignore=shutil.ignore_patterns("__pycache__"))
    with (packages / "railhead" / "driver" / "site.py").open("a") as file:
        file.write("# newer\n")
    service = packages / "railhead" / "resources" / "network.py"
    changed = service.read_text().replace('"type": "ClusterIP",', '"type": "ClusterIP", "sessionAffinity": "ClientIP",')
    assert changed != service.read_text()
    service.write_text(changed)
    newer = RunningOperator(operator.kubeconfig, tmp_path, packages=packages)
    yield newer
    newer.stop()


def test_replaced_workers_keep_the_driver_and_the_next_attempt_gets_the_new_one(
    cluster: Cluster, newer: RunningOperator
) -> None:
    cluster.apply("upgraded")
    start(cluster, 3)
    assert cluster.report("upgraded", token=cluster.token_of(cluster.head("upgraded")), reports=1, joined=2) == 202
    old = cluster.wait_phase("upgraded", "Running")["driver"]
    cluster.operator.stop()
    newer.start()
    cluster = replace(cluster, operator=newer)

    lose_worker(cluster, round_=1)
    start(cluster, 3)
    wait_until("all are up", lambda: cluster.status("upgraded")["workers"]["ready"] == 2)
    assert find_drivers(cluster) == {old}

    children = {child for child in cluster.children("upgraded") if not child.startswith(("pods/", "secrets/"))}
    assert len(children) == 1, children
    for child in children:
        path = f"/api/v1/namespaces/{cluster.namespace}/{child}"
        assert cluster.server.request("DELETE", path).status == 200
    lose_worker(cluster, round_=2)
    wait_until("the children", lambda: children <= set(cluster.children("upgraded")))
    start(cluster, 3)

    gone = Outcome("Infrastructure", reason="RayHeadEnded", message="gone")
    cluster.end_pod(cluster.head("upgraded"), code=FailureClass.INFRASTRUCTURE.exit_code, outcome=gone)
    wait_until("attempt 2", lambda: cluster.status("upgraded")["attempt"] == 2)
    wait_until("its pods", lambda: len(cluster.pods("upgraded")) == 3)
    new = cluster.status("upgraded")["driver"]
    assert new != old and find_drivers(cluster) == {new}
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps/{new}"
    assert cluster.server.request("GET", path).status == 200


def start(cluster: Cluster, count: int) -> None:
    for pod in cluster.wait_pods("upgraded", count).values():
        cluster.run_pod(pod)


def lose_worker(cluster: Cluster, *, round_: int) -> None:
    worker = next(pod for name, pod in cluster.pods("upgraded").items() if not name.endswith("-head"))
    cluster.remove_pod(worker)
    wait_until(f"round {round_}", lambda: cluster.status("upgraded").get("round") == round_)


def find_drivers(cluster: Cluster) -> set[str]:
    """The drivers that the job's pods mount."""
    return {driver_of(pod) for pod in cluster.pods("upgraded").values()}
