"""Railhead beside Kueue's own program: its pod integration. Needs RAILHEAD_KUEUE (tests/kueue)."""

from __future__ import annotations

import os

import pytest

from tests.api.server import ApiServer
from tests.kueue.client import Installation
from tests.kueue.real import RealInstallation
from tests.operator.conftest import make_cluster
from tests.operator.queue_stage import QUOTA, Stage
from tests.operator.running import RunningOperator
from tests.operator.served_kueue import REAL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REAL not in os.environ, reason=f"{REAL} doesn't name a folder with Kueue's program"),
]
PODS = {"frameworks": ["batch/job", "pod"]}


@pytest.fixture
def kueue(installation: Installation) -> RealInstallation:
    assert isinstance(installation, RealInstallation)
    return installation


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
