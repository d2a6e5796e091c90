"""Operators with disjoint job selectors share a cluster and never touch each other's jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.install import NAMESPACE
from tests.operator.account import make_account
from tests.operator.audit import LABEL_NAMESPACE, WRITES, AuditLog, Request
from tests.operator.cluster import Cluster
from tests.operator.conftest import LED
from tests.operator.running import RunningOperator
from tests.waiting import wait_until

A, B = {"team": "a"}, {"team": "b"}
RUNS_A, RUNS_B = (f"system:serviceaccount:{namespace}:railhead-operator" for namespace in (NAMESPACE, LABEL_NAMESPACE))
JOBS_IN_METRICS = re.compile(r'^railhead_jobs\{namespace="[\w-]*",phase="\w*"\} (\d+)', re.MULTILINE)


@pytest.fixture
def of_team_b(
    audited_plane: tuple[ControlPlane, AuditLog], operator: RunningOperator, tmp_path: Path
) -> Iterator[RunningOperator]:
    """A second release of the chart; the operator of the other tests runs the jobs of team a meanwhile."""
    kubeconfig = tmp_path / "b.kubeconfig"
    with make_account(audited_plane[0], LABEL_NAMESPACE, {"jobSelector": "team in (b)"}, kubeconfig) as rendered:
        flags = [arg for arg in rendered.container["args"] if arg.startswith("--job-selector")]
        second = RunningOperator(kubeconfig, tmp_path, namespace=LABEL_NAMESPACE, flags=[*flags, *LED])
        operator.rest()
        try:
            operator.start(flags=["--job-selector=team=a"])
            second.start()
            yield second
        finally:
            second.stop()
            operator.rest()


def count_jobs(operator: RunningOperator) -> int:
    return sum(int(count) for count in JOBS_IN_METRICS.findall(operator.metrics()))


def writers(asked: list[Request], job: str) -> set[str]:
    """Who wrote the job, its pods and its other children."""
    return {r.user for r in asked if r.verb in WRITES and r.name.startswith(job)}


def test_each_operator_runs_the_jobs_that_it_selects_and_one_can_pass_from_one_to_the_other(
    cluster: Cluster, of_team_b: RunningOperator, audit: AuditLog
) -> None:
    base_a, base_b = count_jobs(cluster.operator), count_jobs(of_team_b)
    for job, labels in {"nobody": {}, "a-1": A, "b-1": B, "a-2": A, "b-2": B}.items():
        cluster.apply(job, labels=labels)
    for job in ("a-1", "a-2", "b-1", "b-2"):
        for pod in cluster.wait_pods(job, 3).values():
            cluster.run_pod(pod)
        cluster.wait_phase(job, "Starting")
    wait_until("team a knows its jobs", lambda: count_jobs(cluster.operator) - base_a == 2)
    wait_until("team b knows its jobs", lambda: count_jobs(of_team_b) - base_b == 2)
    asked = audit.requests(cluster.namespace)
    assert {job: writers(asked, job) for job in ("nobody", "a-1", "a-2", "b-1", "b-2")} == {
        "nobody": set(),
        "a-1": {RUNS_A},
        "a-2": {RUNS_A},
        "b-1": {RUNS_B},
        "b-2": {RUNS_B},
    }
    assert "phase" not in cluster.status("nobody")

    cluster.label("a-1", B)
    wait_until("team a releases it", lambda: count_jobs(cluster.operator) - base_a == 1)
    wait_until("team b knows it", lambda: count_jobs(of_team_b) - base_b == 3)
    before, version = cluster.pods("a-1"), len(audit.requests(cluster.namespace))
    worker = next(pod for name, pod in before.items() if not name.endswith("-head"))
    cluster.remove_pod(worker)
    after = cluster.wait_pods("a-1", 3)
    kept = {pod["metadata"]["uid"] for pod in before.values()} - {worker["metadata"]["uid"]}
    assert kept < {pod["metadata"]["uid"] for pod in after.values()}, "nothing is deleted by the hand-over"
    assert cluster.status("a-1")["attempt"] == 1
    assert writers(audit.requests(cluster.namespace)[version:], "a-1") == {RUNS_B}
