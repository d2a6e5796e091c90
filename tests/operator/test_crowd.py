"""The operator is not alone: another operator beside it, and pods that are not its own."""

from __future__ import annotations

import functools
from collections import Counter

from railhead.api import names
from tests.operator.audit import AuditLog
from tests.operator.running import RunningOperator
from tests.operator.stage import Stage
from tests.waiting import wait_until


def meet_stranger(stage: Stage) -> tuple[str, str]:
    """A pod with the name that a job's head will have, before the operator looks; job and pod."""
    stage.operator.stop()
    uid = stage.apply("late")["metadata"]["uid"]
    name = names.head_name("late", uid, 1)
    stage.make_pod(name)
    stage.operator.start()
    wait_until("the refusal", lambda: "CreateRefused" in {event["reason"] for event in stage.events("late")})
    return "late", name


def test_a_strangers_pod_in_the_heads_place_is_said_and_left_alone(stage: Stage) -> None:
    job, name = meet_stranger(stage)
    [event] = [event for event in stage.events(job) if event["reason"] == "CreateRefused"]
    assert event["message"] == f"Pod {name} was refused: a pod of this name exists that is not the job's; delete it"
    stranger = stage.pod(name)
    assert "ownerReferences" not in stranger["metadata"]
    stage.remove_pod(stranger)
    stage.wait_pods(job, 3)


def test_two_operators_at_once_do_a_job_once(stage: Stage, second_operator: RunningOperator, audit: AuditLog) -> None:
    jobs = [f"shared-{number}" for number in range(5)]
    for job in jobs:
        stage.apply(job)
    for job in jobs:
        pods = stage.wait_pods(job, 3)
        for pod in pods.values():
            stage.run_pod(pod)
    for job in jobs:
        stage.wait_phase(job, "Starting")
        assert stage.status(job)["attempt"] == 1
        wait_until("the event", functools.partial(stage.events, job))  # of the one that was first, which may be slower
        assert Counter(event["reason"] for event in stage.events(job)) == {"Created": 1}
    asked = audit.requests(stage.namespace)
    assert Counter(r.code for r in asked if (r.verb, r.resource) == ("create", "pods"))[201] == 3 * len(jobs)
    assert not [r for r in asked if r.verb == "delete"]


def test_a_pod_that_the_job_lost_by_another_hand_is_made_again(stage: Stage) -> None:
    stage.apply("robbed")
    worker = next(pod for name, pod in stage.wait_pods("robbed", 3).items() if not name.endswith("-head"))
    stage.remove_pod(worker)
    pods = stage.wait_pods("robbed", 3)
    assert worker["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods.values()}
