"""A failed attempt, seen from outside."""

from __future__ import annotations

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from tests.operator.stage import Object, Stage
from tests.waiting import wait_until

RAISED = Outcome("Application", reason="TrainFunctionRaised", message="ValueError: no rails")


def of_attempt(stage: Stage, job: str, attempt: int) -> list[Object]:
    label = "railhead.dev/attempt"
    return [pod for pod in stage.pods(job).values() if pod["metadata"]["labels"][label] == str(attempt)]


def fail_attempt(stage: Stage, job: str, attempt: int) -> None:
    """All pods of the attempt come up, then its driver ends with the user's error."""
    pods = wait_until(
        f"pods of attempt {attempt}",
        lambda: [
            p for p in stage.pods(job).values() if p["metadata"]["labels"]["railhead.dev/attempt"] == str(attempt)
        ],
    )
    for pod in pods:
        stage.run_pod(pod)
    [head] = [p for p in pods if p["metadata"]["name"].endswith("-head")]
    stage.end_pod(head, code=FailureClass("Application").exit_code, outcome=RAISED)


def test_a_failed_attempt_is_followed_by_the_next_until_the_limit(stage: Stage) -> None:
    stage.apply("again", workers=1, backoffLimit=1)
    stage.wait_pods("again", 2)
    fail_attempt(stage, "again", 1)
    wait_until("attempt 2", lambda: stage.status("again").get("attempt") == 2)
    assert stage.status("again")["failure"]["attempt"] == 1
    fail_attempt(stage, "again", 2)
    status = stage.wait_phase("again", "Failed")
    assert status["failure"]["message"].endswith("ValueError: no rails")
    assert status["failure"]["reason"] == "TrainFunctionRaised"
    assert status["restarts"]["application"] == 1
