"""Two replicas with leader election on a real API server: exactly one of them plans, whatever happens to the other."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from railhead.controller.leadership import LEASE_NAME
from railhead.local.install import NAMESPACE
from tests.api.server import ApiServer
from tests.operator.audit import WRITES, AuditLog
from tests.operator.cluster import Cluster
from tests.operator.conftest import LED, make_cluster
from tests.operator.running import RunningOperator
from tests.waiting import wait_until

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE_NAME}"


@dataclass
class Replicas:
    """The leader and the standby."""

    server: ApiServer
    leader: RunningOperator
    other: RunningOperator

    def holder(self) -> str:
        answer = self.server.request("GET", LEASE)
        return str(answer.body["spec"].get("holderIdentity") or "") if answer.status == 200 else ""

    def wait_change(self, before: str) -> None:
        """Until the other one leads."""
        wait_until("another leader", lambda: self.holder() not in ("", before), seconds=60)


@pytest.fixture
def replicas(operator: RunningOperator, server: ApiServer, tmp_path: Path) -> Iterator[Replicas]:
    """The other tests' operator rests meanwhile."""
    operator.rest()
    leader, other = (RunningOperator(operator.kubeconfig, tmp_path / name) for name in ("leader", "other"))
    try:
        server.request("DELETE", LEASE)  # of an operator killed by another test
        leader.start(flags=LED)
        replicas = Replicas(server, leader, other)
        wait_until("a leader", lambda: "leading as" in leader.log.read_text())
        other.start(flags=LED)
        yield replicas
    finally:
        leader.stop()
        other.stop()


@pytest.fixture
def led_stage(server: ApiServer, replicas: Replicas) -> Cluster:
    return make_cluster(server, replicas.leader)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_standby_takes_over(
    replicas: Replicas, led_stage: Cluster, audit: AuditLog, number: signal.Signals
) -> None:
    led_stage.apply("moved")
    led_stage.wait_pods("moved", 3)
    before = replicas.holder()
    replicas.leader.signal(number)
    code = replicas.leader.wait()
    assert code == (0 if number == signal.SIGTERM else -number)
    if number == signal.SIGTERM:  # it has released the Lease, so the other one does not wait for its expiry
        assert replicas.holder() != before
    replicas.wait_change(before)
    for pod in led_stage.pods("moved").values():
        led_stage.run_pod(pod)
    led_stage.wait_phase("moved", "Starting")
    asked = audit.requests(led_stage.namespace)
    assert Counter(r.code for r in asked if (r.verb, r.resource) == ("create", "pods"))[201] == 3
    assert not [r for r in asked if r.verb == "delete"]
    assert led_stage.status("moved")["attempt"] == 1


def test_a_leader_that_was_paused_for_long_writes_nothing_and_waits_for_the_lease(
    replicas: Replicas, led_stage: Cluster, audit: AuditLog
) -> None:
    led_stage.apply("early")
    led_stage.wait_pods("early", 3)
    wait_until("the pass is over", lambda: count_writes(led_stage, audit, "pods") == 3)  # its last writes
    before = replicas.holder()
    replicas.leader.signal(signal.SIGSTOP)
    try:
        for number in range(3):
            led_stage.apply(f"late-{number}")  # it sees them when it wakes up, before it checks its Lease
        replicas.wait_change(before)
        for number in range(3):
            for pod in led_stage.wait_pods(f"late-{number}", 3).values():
                led_stage.run_pod(pod)
            led_stage.wait_phase(f"late-{number}", "Starting")
        # The audit log is slightly delayed.
        wait_until("the last pods", lambda: count_writes(led_stage, audit, "pods") == 3 + 3 * 3)
        wait_until(
            "the last statuses",
            lambda: count_writes(led_stage, audit, "trainjobs/status", is_granted=True) >= 1 + 2 * 3,
        )
        wrote = count_writes(led_stage, audit)
    finally:
        replicas.leader.signal(signal.SIGCONT)
    wait_until("its place in the queue", lambda: "waiting for the Lease" in replicas.leader.log.read_text())
    late = [r for r in audit.requests(led_stage.namespace) if r.verb in WRITES][wrote:]
    assert not late, late
    assert Counter(r.code for r in audit.requests(led_stage.namespace) if r.resource == "pods")[201] == 12
    replicas.other.end()
    wait_until("its next lead", lambda: replicas.holder() == before)
    led_stage.apply("next")
    led_stage.wait_pods("next", 3)


def count_writes(cluster: Cluster, audit: AuditLog, resource: str = "", *, is_granted: bool = False) -> int:
    """Writes of one resource or of all; all requested ones, or only those granted."""
    asked = [r for r in audit.requests(cluster.namespace) if r.verb in WRITES and resource in ("", r.resource)]
    return sum(r.code < 400 or not is_granted for r in asked)


def test_the_standby_accepts_reports(replicas: Replicas, led_stage: Cluster) -> None:
    led_stage.apply("reported")
    for pod in led_stage.wait_pods("reported", 3).values():
        led_stage.run_pod(pod)
    led_stage.wait_phase("reported", "Starting")
    token = led_stage.token_of(led_stage.head("reported"))
    waiting = Cluster(led_stage.server, replicas.other, led_stage.namespace)
    for number, cluster in enumerate((waiting, led_stage, waiting), start=1):
        wait_until("the report", lambda: cluster.report("reported", token=token, reports=number, joined=2) == 202)  # noqa: B023
        cluster.wait_reports("reported", number)
    led_stage.wait_phase("reported", "Running")
