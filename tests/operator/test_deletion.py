"""A job that is deleted in any phase leaves nothing, and nothing more is created or written for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.contract.report import CommittedCheckpoint
from tests.operator.audit import WRITES, AuditLog
from tests.operator.cluster import Cluster
from tests.operator.scenarios import RAISED
from tests.waiting import wait_until

JOB = "leaves"
LAST = CommittedCheckpoint("/runs/x/checkpoint_4", 4, "2026-01-01T00:00:04Z")


def start(cluster: Cluster, *, is_bound: bool = False) -> None:
    for pod in cluster.wait_pods(JOB, 3).values():
        if is_bound:  # it then uses its grace period
            cluster.bind_pod(pod)
        cluster.run_pod(pod)
    cluster.wait_phase(JOB, "Starting")


def train(cluster: Cluster) -> None:
    start(cluster)
    token = cluster.token_of(cluster.head(JOB))
    assert cluster.report(JOB, token=token, reports=1, joined=2) == 202


def raise_in_training(cluster: Cluster) -> None:
    start(cluster)
    cluster.end_pod(cluster.head(JOB), code=FailureClass("Application").exit_code, outcome=RAISED)


def begin_to_rest(cluster: Cluster) -> None:
    start(cluster, is_bound=True)
    cluster.change(JOB, suspend=True)


def rest(cluster: Cluster) -> None:
    start(cluster)
    cluster.change(JOB, suspend=True)


def succeed(cluster: Cluster) -> None:
    start(cluster)
    cluster.end_pod(cluster.head(JOB), code=0, outcome=Outcome(SUCCEEDED, reports=1))


@pytest.mark.parametrize(
    ("phase", "reach", "limit"),
    [
        ("Pending", lambda cluster: None, 1),
        ("Starting", start, 1),
        ("Running", train, 1),
        ("Restarting", raise_in_training, 1),
        ("Suspending", begin_to_rest, 1),
        ("Suspended", rest, 1),
        ("Succeeded", succeed, 1),
        ("Failed", raise_in_training, 0),
    ],
)
def test_a_deleted_job_leaves_nothing(
    cluster: Cluster, audit: AuditLog, phase: str, reach: Callable[[Cluster], None], limit: int
) -> None:
    cluster.apply(JOB, backoffLimit=limit)
    cluster.wait_pods(JOB, 3)
    reach(cluster)
    cluster.wait_phase(JOB, phase)
    uid = cluster.job(JOB)["metadata"]["uid"]
    assert cluster.children_of(uid)
    cluster.delete(JOB)
    # The garbage collector learns of a new kind of owner within half a minute.
    wait_until("all is gone", lambda: is_gone(cluster, uid), seconds=90, pause=0.5)
    # Other jobs, which the operator reconciles after all pending work for the first.
    for name in ("between", "next"):
        wrote = len(names_written(cluster, audit))
        cluster.apply(name)
        cluster.wait_pods(name, 3)
    assert not cluster.children_of(uid)
    late = [name for name in names_written(cluster, audit)[wrote:] if JOB in name]
    assert not late, "a deleted job is still being reconciled"


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_deleted_job_that_a_finalizer_keeps_is_stopped(cluster: Cluster, policy: str) -> None:
    cluster.apply(JOB)
    start(cluster, is_bound=True)
    uid = cluster.job(JOB)["metadata"]["uid"]
    cluster.hold(JOB, "example.com/backup")
    cluster.delete(JOB, policy=policy)
    cluster.wait_phase(JOB, "Suspending")
    wait_until("the deletion of the head", lambda: cluster.head(JOB)["metadata"].get("deletionTimestamp"))
    if policy == "Background":
        assert len([pod for pod in cluster.pods(JOB).values() if "deletionTimestamp" not in pod["metadata"]]) == 2
    outcome = Outcome("Preemption", reason="Terminated", checkpoint=LAST)
    cluster.end_pod(cluster.head(JOB), code=FailureClass.PREEMPTION.exit_code, outcome=outcome)
    wait_until("the last checkpoint", lambda: cluster.status(JOB).get("checkpoint", {}).get("index") == LAST.index)
    wait_until("the end of the pods", lambda: is_gone(cluster, uid) or not cluster.pods(JOB), seconds=90, pause=0.5)
    assert cluster.wait_phase(JOB, "Suspended")["attempt"] == 1
    assert not cluster.pods(JOB)
    cluster.hold(JOB)
    wait_until("all is gone", lambda: is_gone(cluster, uid), seconds=90, pause=0.5)


def is_gone(cluster: Cluster, uid: str) -> bool:
    """Terminates bound pods, as a kubelet does."""
    for pod in cluster.pods(JOB).values():
        if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName"):
            cluster.remove_pod(pod)
    return not cluster.children_of(uid)


def names_written(cluster: Cluster, audit: AuditLog) -> list[str]:
    """Of granted writes; Events may come late."""
    asked = audit.requests(cluster.namespace)
    return [r.name for r in asked if r.verb in WRITES and r.code < 400 and r.resource != "events"]
