"""A restricted operator without the chart's admission policy: it creates no pods that are not allowed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from railhead.api.restrictions import ADVICE
from tests.operator.cluster import Cluster, Object
from tests.operator.test_refusals import wait_reason

FLAGS = ("--restrict-pod-template", "--allowed-service-account=default", "--allowed-secret=keys")
FORBIDDEN: dict[str, tuple[Object, str]] = {
    "account": ({"podTemplate": {"spec": {"serviceAccountName": "admin"}}}, "spec.podTemplate.spec.serviceAccountName"),
    "host": ({"worker": {"podTemplate": {"spec": {"hostPID": True}}}}, "spec.worker.podTemplate.spec.hostPID"),
    "secret": ({"envFrom": [{"secretRef": {"name": "root"}}]}, "spec.envFrom[].secretRef.name"),
}


@pytest.fixture
def restricted(cluster: Cluster) -> Iterator[Cluster]:
    cluster.operator.end()
    try:
        cluster.operator.start(flags=FLAGS)
        yield cluster
    finally:
        cluster.operator.stop()
        cluster.operator.start()


def test_the_operator_creates_nothing_for_a_job_that_is_not_allowed(restricted: Cluster) -> None:
    cluster = restricted
    for name, (spec, _) in FORBIDDEN.items():
        cluster.apply(name, workers=1, **spec)
    for name, (_, field) in FORBIDDEN.items():
        message = wait_reason(cluster, name, "NotAllowed")
        assert message.startswith(f"{field}: ") and message.endswith(ADVICE)
        assert cluster.children(name) == []
    cluster.apply("allowed", workers=1, envFrom=[{"secretRef": {"name": "keys"}}])
    cluster.wait_pods("allowed", 2)


def test_a_job_from_before_keeps_its_pods_and_gets_none(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    cluster.apply("old", workers=1, podTemplate={"spec": {"shareProcessNamespace": False, "hostIPC": True}})
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.wait_pods("old", 2).items()}
    for pod in cluster.pods("old").values():
        cluster.run_pod(pod)
    cluster.wait_phase("old", "Starting")
    request.getfixturevalue("restricted")
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods("old").items()} == before
    [worker] = [pod for name, pod in cluster.pods("old").items() if not name.endswith("-head")]
    cluster.remove_pod(worker)
    assert "spec.podTemplate.spec.hostIPC: must be false" in wait_reason(cluster, "old", "NotAllowed")
    assert [pod["metadata"]["uid"] for pod in cluster.pods("old").values()] == [cluster.head("old")["metadata"]["uid"]]
