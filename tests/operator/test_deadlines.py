"""The limits of a job, seen from outside, by the API server's clock."""

from __future__ import annotations

from tests.operator.stage import Stage
from tests.waiting import wait_until


def test_a_start_that_takes_too_long_gives_the_pods_back_and_is_tried_again(stage: Stage) -> None:
    stage.apply("slow", workers=1, startDeadlineSeconds=2)
    first = set(stage.wait_pods("slow", 2))
    wait_until("attempt 2", lambda: stage.status("slow").get("attempt") == 2, seconds=60)
    status = stage.status("slow")
    assert (status["failure"]["class"], status["failure"]["reason"]) == ("Startup", "StartDeadlineExceeded")
    assert status["restarts"] == {"application": 0, "infrastructure": 0, "withoutProgress": 0, "startup": 1}
    wait_until("the pods of attempt 2 alone", lambda: not first & set(stage.pods("slow")) and stage.pods("slow"))
    stage.change("slow", startDeadlineSeconds=None)
    for pod in stage.wait_pods("slow", 2).values():
        stage.run_pod(pod)
    stage.wait_phase("slow", "Starting")


def test_a_limit_of_the_whole_job_may_come_while_it_runs(stage: Stage) -> None:
    stage.apply("long", workers=1)
    for pod in stage.wait_pods("long", 2).values():
        stage.bind_pod(pod)
        stage.run_pod(pod)
    stage.wait_phase("long", "Starting")
    stage.change("long", activeDeadlineSeconds=1)
    status = stage.wait_phase("long", "Failed")
    assert status["failure"]["reason"] == "ActiveDeadlineExceeded"
    assert {c["type"] for c in status["conditions"] if c["status"] == "True"} == {"Failed", "Stalled"}
    wait_until("the head is told", lambda: stage.head("long")["metadata"].get("deletionTimestamp"))
    [worker] = [pod for name, pod in stage.pods("long").items() if not name.endswith("-head")]
    assert not worker["metadata"].get("deletionTimestamp"), "the driver may still commit"
    stage.remove_pod(stage.head("long"))
    wait_until("the worker goes", lambda: stage.pod(worker["metadata"]["name"])["metadata"].get("deletionTimestamp"))
