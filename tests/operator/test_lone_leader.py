"""One replica with leader election: an outage of the API server or its own death costs no more than its duration."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.controller.leadership import LEASE_NAME
from railhead.local.control_plane import ControlPlane
from railhead.local.install import NAMESPACE
from tests.api.server import ApiServer
from tests.operator.audit import AuditLog
from tests.operator.conftest import LED, make_cluster
from tests.operator.proxy import FaultyProxy
from tests.operator.running import RunningOperator
from tests.waiting import wait_until

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE_NAME}"
LONG_FLAGS = ("--leader-election", "--lease-seconds=600", "--pod-uid=4d7c0f3e")


@pytest.fixture
def lone(operator: RunningOperator, server: ApiServer, tmp_path: Path) -> Iterator[RunningOperator]:
    """Not started; the other tests' operator rests meanwhile, and Leases of killed ones are deleted."""
    operator.rest()
    assert server.request("DELETE", LEASE).status in (200, 404)
    lone = RunningOperator(operator.kubeconfig, tmp_path)
    try:
        yield lone
    finally:
        lone.stop()


def wait_log(operator: RunningOperator, what: str, *, times: int = 1) -> None:
    wait_until(what, lambda: operator.log.exists() and operator.log.read_text().count(what) >= times)


def stall(etcd: int, seconds: float) -> None:
    """Pauses etcd for that time."""
    os.kill(etcd, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(etcd, signal.SIGCONT)


def test_an_outage_longer_than_the_lease_costs_no_restart(
    audited_plane: tuple[ControlPlane, AuditLog], server: ApiServer, lone: RunningOperator
) -> None:
    lone.start(flags=LED)
    wait_log(lone, "leading as")
    etcd = audited_plane[0].pids()["etcd"]
    os.kill(etcd, signal.SIGSTOP)
    try:
        wait_log(lone, "stopped leading")
    finally:
        os.kill(etcd, signal.SIGCONT)
    wait_log(lone, "leading as", times=2)
    assert not lone.has_ended
    cluster = make_cluster(server, lone)
    cluster.apply("after")
    cluster.wait_pods("after", 3)
    assert lone.end() == 0


def test_a_restarted_process_does_not_wait_for_the_lease_of_its_killed_predecessor(
    lone: RunningOperator,
) -> None:
    lone.start(flags=LONG_FLAGS)
    wait_log(lone, "leading as")
    lone.stop()
    lone.start(flags=LONG_FLAGS)
    wait_log(lone, "leading as", times=2)
    assert lone.end() == 0


def test_an_operator_that_starts_during_an_outage_waits_and_ends_on_sigterm(
    audited_plane: tuple[ControlPlane, AuditLog], operator: RunningOperator, tmp_path: Path
) -> None:
    plane = audited_plane[0]
    with FaultyProxy(plane) as proxy:
        proxy.go_down()
        kubeconfig = tmp_path / "operator.kubeconfig"
        kubeconfig.write_text(operator.kubeconfig.read_text().replace(plane.server, proxy.url))
        early = RunningOperator(kubeconfig, tmp_path)
        early.launch(flags=LED)
        try:
            wait_log(early, "startup: 0 NoAnswer")
            assert "railhead_leader 0.0" in early.metrics()
            assert early.end() == 0
            early.launch(flags=LED)
            wait_log(early, "startup: 0 NoAnswer", times=2)
            proxy.come_back()
            early.wait_ready()
        finally:
            early.stop()


@pytest.mark.slow  # an API server that hardly works, in real time
def test_an_api_server_that_works_only_for_moments_does_not_cost_the_lease(
    audited_plane: tuple[ControlPlane, AuditLog], lone: RunningOperator
) -> None:
    """With the default durations. The Lease of a kubelet survives this too."""
    lone.start(flags=("--leader-election",))
    wait_log(lone, "leading as")
    for _ in range(8):
        stall(audited_plane[0].pids()["etcd"], 4)
        time.sleep(0.15)
    assert not lone.has_ended
    assert "stopped leading" not in lone.log.read_text()
