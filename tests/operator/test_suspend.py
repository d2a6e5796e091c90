"""spec.suspend, as seen by its user: which pods are deleted, and in which order."""

from __future__ import annotations

from typing import Any

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint
from tests.operator.cluster import Cluster
from tests.waiting import wait_until

LAST: dict[str, Any] = {"uri": "/runs/x/checkpoint_4", "index": 4, "time": "2026-01-01T00:00:04Z", "metrics": {}}


def test_the_head_ends_first_then_the_workers_and_the_job_resumes_in_a_new_attempt(cluster: Cluster) -> None:
    cluster.apply("rests", workers=2)
    pods = cluster.wait_pods("rests", 3)
    for pod in pods.values():
        cluster.bind_pod(pod)
        cluster.run_pod(pod)
    cluster.wait_phase("rests", "Starting")
    head = cluster.head("rests")
    assert head["spec"]["terminationGracePeriodSeconds"] == 75
    cluster.change("rests", suspend=True)
    cluster.wait_phase("rests", "Suspending")
    wait_until("the deletion of the head", lambda: cluster.head("rests")["metadata"].get("deletionTimestamp"))
    deleting = {name for name, pod in cluster.pods("rests").items() if pod["metadata"].get("deletionTimestamp")}
    assert deleting == {head["metadata"]["name"]}
    outcome = Outcome("Preemption", reason="Terminated", checkpoint=CommittedCheckpoint(**LAST))
    cluster.end_pod(head, code=FailureClass.PREEMPTION.exit_code, outcome=outcome)
    wait_until(
        "the deletion of the workers",
        lambda: all(pod["metadata"].get("deletionTimestamp") for pod in cluster.pods("rests").values()),
    )
    assert cluster.status("rests")["phase"] == "Suspending"
    for pod in cluster.pods("rests").values():
        cluster.remove_pod(pod)
    status = cluster.wait_phase("rests", "Suspended")
    assert status["checkpoint"]["index"] == 4
    assert [c["type"] for c in status["conditions"] if c["status"] == "True"] == ["Suspended"]
    cluster.change("rests", suspend=False)
    wait_until("attempt 2", lambda: cluster.status("rests").get("attempt") == 2)
    cluster.wait_pods("rests", 3)
    assert "restarts" not in cluster.status("rests"), "nothing was lost"
    expected = {"Suspended", "Resumed"}
    wait_until("the events", lambda: expected <= {event["reason"] for event in cluster.events("rests")})


def test_a_job_created_suspended_has_no_pods_until_it_is_resumed(cluster: Cluster) -> None:
    cluster.apply("later", workers=1, suspend=True)
    cluster.wait_phase("later", "Suspended")
    assert not cluster.pods("later")
    cluster.change("later", suspend=False)
    cluster.wait_pods("later", 2)
