"""Pods that stay Terminating, because no kubelet says that they have ended: on a real API server, by its own stamps."""

from __future__ import annotations

import pytest

from tests.operator.stage import Object, Stage
from tests.waiting import wait_until


def train(stage: Stage, job: str, *, node: str) -> dict[str, Object]:
    """All pods of a job with two workers run on this node."""
    node_body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    assert stage.server.request("POST", "/api/v1/nodes", node_body).status == 201
    stage.apply(job, workers=2)
    pods = stage.wait_pods(job, 3)
    for pod in pods.values():
        stage.bind_pod(pod, node)
        stage.run_pod(pod)
    stage.wait_phase(job, "Starting")
    return pods


def of_attempt(stage: Stage, job: str, attempt: int) -> list[str]:
    return [name for name in stage.pods(job) if f"-{attempt}-" in name]


def test_a_worker_that_never_ends_is_replaced_under_a_new_name(stage: Stage) -> None:
    pods = train(stage, "split", node="silent-1")
    lost = next(pod for name, pod in pods.items() if name.endswith("-w1-0"))
    stage.ask_to_go(lost, seconds=1)
    name = lost["metadata"]["name"].removesuffix("-0") + "-1"
    wait_until("the replacement", lambda: name in stage.pods("split"))
    assert stage.pod(lost["metadata"]["name"])["metadata"]["deletionTimestamp"]
    status = stage.status("split")
    assert (status["attempt"], status["round"], status["restarts"]["infrastructure"]) == (1, 1, 1)


@pytest.mark.slow  # 30 s beyond a grace period, by the real clock
def test_a_head_that_never_ends_is_left_behind_after_its_grace_period(stage: Stage) -> None:
    pods = train(stage, "lost", node="silent-2")
    for pod in pods.values():
        stage.ask_to_go(pod, seconds=1)
    wait_until("the loss", lambda: stage.status("lost").get("failure"))
    assert stage.status("lost")["attempt"] == 1 and not of_attempt(stage, "lost", 2)
    wait_until("attempt 2", lambda: len(of_attempt(stage, "lost", 2)) == 3, seconds=60)
    old = stage.pod(f"{stage.status('lost')['failure']['pod']}")
    assert old["metadata"]["deletionTimestamp"] and old["status"]["phase"] == "Running"
    said = wait_until("the word", lambda: [e for e in stage.events("lost") if e["reason"] == "PodsLeftBehind"])
    assert f"{old['metadata']['name']} on node silent-2" in said[0]["message"]
    assert stage.status("lost")["restarts"]["infrastructure"] == 1
