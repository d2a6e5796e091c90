"""A failed attempt, as seen by its user."""

from __future__ import annotations

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from tests.operator.cluster import Cluster, Object
from tests.waiting import wait_until

RAISED = Outcome("Application", reason="TrainFunctionRaised", message="ValueError: no rails")


def of_attempt(cluster: Cluster, job: str, attempt: int) -> list[Object]:
    label = "railhead.dev/attempt"
    return [pod for pod in cluster.pods(job).values() if pod["metadata"]["labels"][label] == str(attempt)]


def fail_attempt(cluster: Cluster, job: str, attempt: int) -> None:
    """All pods of the attempt start running, then its driver ends with the user's error."""
    pods = wait_until(
        f"pods of attempt {attempt}",
        lambda: len(found := of_attempt(cluster, job, attempt)) == 2 and found,
    )
    for pod in pods:
        cluster.run_pod(pod)
    [head] = [p for p in pods if p["metadata"]["name"].endswith("-head")]
    cluster.end_pod(head, code=FailureClass("Application").exit_code, outcome=RAISED)


def test_a_failed_attempt_is_followed_by_the_next_until_the_limit(cluster: Cluster) -> None:
    cluster.apply("again", workers=1, backoffLimit=1)
    cluster.wait_pods("again", 2)
    fail_attempt(cluster, "again", 1)
    wait_until("attempt 2", lambda: cluster.status("again").get("attempt") == 2)
    assert cluster.status("again")["failure"]["attempt"] == 1
    fail_attempt(cluster, "again", 2)
    status = cluster.wait_phase("again", "Failed")
    assert status["failure"]["message"].endswith("ValueError: no rails")
    assert status["failure"]["reason"] == "TrainFunctionRaised"
    assert status["restarts"]["application"] == 1
