"""What GitOps tools compare: the file in Git and the object in the cluster are the same in every phase of a job."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.local.control_plane import ControlPlane
from tests.operator.audit import WRITES, AuditLog
from tests.operator.cluster import JOBS, Cluster, Object
from tests.waiting import wait_until

APPLIES = 10
APPLY_PATCH = "application/apply-patch+yaml"
NO_DIFFERENCE, DIFFERENCE = 0, 1  # exit codes of `kubectl diff`
Git = Callable[..., int]


@pytest.fixture
def git(audited_plane: tuple[ControlPlane, AuditLog], cluster: Cluster, tmp_path: Path) -> Git:
    """Runs kubectl on the file as GitOps tools do on theirs in Git; returns the exit code."""
    plane = audited_plane[0]
    base = [str(plane.binaries / "kubectl"), "--kubeconfig", str(plane.kubeconfig), "-n", cluster.namespace]

    def run(verb: str, job: Object) -> int:
        file = tmp_path / "job.yaml"
        file.write_text(yaml.safe_dump(job))
        command = [*base, verb, "--server-side", "--field-manager=gitops", "-f", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (NO_DIFFERENCE, DIFFERENCE), done.stderr
        return done.returncode

    return run


def test_a_job_never_differs_from_its_file_and_applying_it_again_costs_no_write(
    cluster: Cluster, git: Git, audit: AuditLog
) -> None:
    """The API server sets its defaults, and the operator writes only the status."""
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": {"pool": "gpu"}}}
    job = cluster.build("drift", podTemplate=template, env=[{"name": "A", "value": "1"}], backoffLimit=2)
    assert git("apply", job) == 0

    def rest(phase: str) -> None:
        """Nothing is pending: the file is compared and applied repeatedly."""
        cluster.wait_phase("drift", phase)
        assert git("diff", job) == NO_DIFFERENCE, phase
        wait_until(f"{phase}: applied {APPLIES} times without a write", is_quiet, seconds=120)

    def is_quiet() -> bool:
        """At first the operator may still be busy with the job; only writes in response to applies never end."""
        before, version = writes(cluster, audit), cluster.job("drift")["metadata"]["resourceVersion"]
        for _ in range(APPLIES):
            apply(cluster, job)
        return (writes(cluster, audit), cluster.job("drift")["metadata"]["resourceVersion"]) == (before, version)

    run_pods(cluster, 3)
    rest("Starting")
    token = cluster.token_of(cluster.head("drift"))
    assert cluster.report("drift", token=token, reports=1, joined=2, workers=2) == 202
    rest("Running")
    cluster.remove_pod(next(pod for name, pod in cluster.pods("drift").items() if not name.endswith("-head")))
    rest("Restarting")
    lost = Outcome("Infrastructure", reason="RayHeadEnded", message="gone")
    cluster.end_pod(cluster.head("drift"), code=FailureClass("Infrastructure").exit_code, outcome=lost)
    wait_until("attempt 2", lambda: sum("-2-" in name for name in cluster.pods("drift")) == 3, seconds=60)
    run_pods(cluster, 3)
    rest("Restarting")
    cluster.end_pod(cluster.head("drift"), code=0, outcome=Outcome(SUCCEEDED, reports=2))
    cluster.wait_phase("drift", "Succeeded")
    wait_until("the last event", lambda: "Succeeded" in {event["reason"] for event in cluster.events("drift")})
    rest("Succeeded")


def test_a_difference_is_detected(cluster: Cluster, git: Git) -> None:
    """Verifies the comparison that the other test relies on."""
    job = cluster.build("differs")
    assert git("apply", job) == 0
    job["metadata"]["labels"] = {"changed": "yes"}
    assert git("diff", job) == DIFFERENCE


def apply(cluster: Cluster, job: Object) -> None:
    """The request of `git("apply", job)`, without a process of kubectl for each."""
    path = f"{JOBS.format(cluster.namespace)}/{job['metadata']['name']}"
    answer = cluster.server.request("PATCH", path, job, content_type=APPLY_PATCH, fieldManager="gitops")
    assert answer.status == 200, answer.message


def run_pods(cluster: Cluster, count: int) -> None:
    """All pods of the newest attempt start running."""
    wait_until(f"{count} pods", lambda: len(live(cluster)) == count)
    for pod in live(cluster):
        cluster.run_pod(pod)


def live(cluster: Cluster) -> list[Object]:
    pods = cluster.pods("drift").values()
    return [pod for pod in pods if pod["status"].get("phase", "Pending") in ("Pending", "Running")]


def writes(cluster: Cluster, audit: AuditLog) -> int:
    return sum(request.verb in WRITES for request in audit.requests(cluster.namespace))
