"""Railhead beside Kueue's own program: its pod integration. Needs RAILHEAD_KUEUE (tests/kueue)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.kueue.real import RealInstallation
from tests.operator.audit import AuditLog
from tests.operator.conftest import make_cluster
from tests.operator.queue_stage import QUOTA, Stage
from tests.operator.running import RunningOperator
from tests.operator.served_kueue import REAL, serve_kueue

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REAL not in os.environ, reason=f"{REAL} doesn't name a folder with Kueue's program"),
]
PODS = {"frameworks": ["batch/job", "pod"]}


@pytest.fixture(scope="module")
def kueue(
    audited_plane: tuple[ControlPlane, AuditLog], server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealInstallation]:
    with serve_kueue(server, audited_plane[0], tmp_path_factory.mktemp("kueue")) as found:
        assert isinstance(found, RealInstallation)
        yield found


@pytest.fixture(scope="module")
def kueue_operator(
    kueue: RealInstallation, operator: RunningOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOperator]:
    own = RunningOperator(operator.kubeconfig, tmp_path_factory.mktemp("operator"), flags=["--kueue"])
    operator.end()
    own.start()
    try:
        yield own
    finally:
        own.stop()
        operator.start()


@pytest.fixture
def stage(server: ApiServer, kueue_operator: RunningOperator, kueue: RealInstallation) -> Stage:
    cluster = make_cluster(server, kueue_operator)
    stage = Stage(cluster, kueue.at(cluster.namespace))
    stage.kueue.make_queue(gpus=QUOTA)
    return stage


def find_gates(stage: Stage, job: str) -> list[bool]:
    """Whether each pod of the job is gated."""
    return [bool(pod["spec"].get("schedulingGates")) for pod in stage.cluster.pods(job).values()]


def test_kueue_gates_the_pods_of_owners_that_it_does_not_know(stage: Stage, kueue: RealInstallation) -> None:
    """Which is why docs/how-to/queues.md excludes the jobs' namespaces from the pod integration."""
    with kueue.configured(manageJobsWithoutQueueName=True, integrations=PODS):
        stage.submit("job")
        stage.wait_pods("job", 3)
        assert all(find_gates(stage, "job"))
