"""Permanent failures: reported at once, with the message of the component that detects them."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from tests.e2e.cluster import Cluster, Object, wait_until
from tests.e2e.jobs import make_job, with_config


def _seconds_from_driver_to_status(cluster: Cluster, name: str) -> float:
    status = cluster.status(name)
    [head] = [p for p in cluster.pods(name) if p["metadata"]["name"] == status["failure"]["pod"]]
    ended = head["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    times = [datetime.fromisoformat(t.replace("Z", "+00:00")) for t in (ended, status["completionTime"])]
    return (times[1] - times[0]).total_seconds()


@pytest.mark.slow
def test_a_missing_train_func_fails_the_job(cluster: Cluster) -> None:
    cluster.apply(make_job("nowhere", cluster.image, function="steps:no_such_function"))
    status = cluster.wait_end("nowhere")
    assert status["phase"] == "Failed"
    assert status["failure"]["class"] == "Configuration"
    assert "no_such_function" in status["failure"]["message"]
    assert status["attempt"] == 1
    assert _seconds_from_driver_to_status(cluster, "nowhere") <= 30
    cluster.delete_job("nowhere")


@pytest.mark.slow
def test_a_train_func_that_raises_fails_the_job(cluster: Cluster) -> None:
    job = make_job(
        "raises",
        cluster.image,
        code="def train_func(config):\n    raise ValueError('the lorry is empty')\n",
        backoffLimit=0,
    )
    cluster.apply(with_config(job))
    status = cluster.wait_end("raises")
    assert status["phase"] == "Failed"
    assert status["failure"]["class"] == "Application"
    assert "ValueError" in status["failure"]["message"] and "the lorry is empty" in status["failure"]["message"]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    common = {"Running": "False", "Suspended": "False", "Complete": "False"}
    assert conditions == {**common, "Failed": "True", "Stalled": "True"}
    assert _seconds_from_driver_to_status(cluster, "raises") <= 30
    cluster.delete_job("raises")


@pytest.mark.slow
def test_an_unwritable_storage_path_fails_the_job(cluster: Cluster) -> None:
    cluster.apply(make_job("unwritable", cluster.image, run={"storagePath": "/proc/railhead"}))
    status = cluster.wait_end("unwritable")
    assert status["phase"] == "Failed"
    assert status["failure"]["class"] == "Configuration"
    assert "/proc/railhead" in status["failure"]["message"]
    assert _seconds_from_driver_to_status(cluster, "unwritable") <= 30
    cluster.delete_job("unwritable")


@pytest.mark.slow  # a cluster would start for it, and it needs a real node
@pytest.mark.node
def test_a_storage_path_that_pods_do_not_share_fails_the_job(cluster: Cluster) -> None:
    if cluster.is_local:
        pytest.skip("pods of a local node are processes that share the host's files; tests/ray shows it without a node")
    container = {"name": "ray", "volumeMounts": [{"name": "own", "mountPath": "/scratch"}]}
    template = {"spec": {"volumes": [{"name": "own", "emptyDir": {}}], "containers": [container]}}
    job = make_job("unshared", cluster.image, run={"storagePath": "/scratch"}, podTemplate=template, env=None)
    cluster.apply(job)
    status = cluster.wait_end("unshared")
    assert status["phase"] == "Failed" and status["attempt"] == 1
    assert (status["failure"]["class"], status["failure"]["reason"]) == ("Configuration", "StorageNotShared")
    assert re.search(r"worker pod unshared-\w+-1-w[01]-0 \(and 1 more\) does not see;", status["failure"]["message"])
    cluster.delete_job("unshared")


def _find_mount(cluster: Cluster, name: str) -> list[Object]:
    found = cluster.status(name).get("conditions") or []
    return [c for c in found if (c["type"], c["reason"]) == ("Reconciling", "FailedMount")]


@pytest.mark.slow
@pytest.mark.node
def test_a_missing_secret_of_a_volume_is_reported_and_mounted_once_it_exists(cluster: Cluster) -> None:
    """The kubelet reports it only in an event of the pod."""
    volume = {"name": "keys", "secret": {"secretName": "late-keys"}}
    uses = {"name": "ray", "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}
    job = make_job("late", cluster.image, podTemplate={"spec": {"volumes": [volume], "containers": [uses]}})
    cluster.apply(with_config(job, epochs=1))
    [condition] = wait_until("the condition", lambda: _find_mount(cluster, "late"), tell=lambda: cluster.tell("late"))
    message = condition["message"]
    assert message.startswith("Pod late-") and " cannot start: " in message and "late-keys" in message, message
    cluster("create", "secret", "generic", "late-keys", "--from-literal=key=word")
    assert cluster.wait_end("late")["phase"] == "Succeeded", cluster.tell("late")
    cluster.delete_job("late")
    cluster("delete", "secret", "late-keys")
