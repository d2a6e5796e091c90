"""Kueue, or the stand-in for it, on a real API server: what its kinds and its webhook refuse, and what they accept."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.kueue.client import Installation, Kueue, build_pod_set, build_workload
from tests.kueue.workload import Object, is_true
from tests.operator.cluster import Cluster

NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
def kueue(cluster: Cluster, installation: Installation) -> Kueue:
    kueue = installation.at(cluster.namespace)
    kueue.make_queue(gpus=4, preemption={"withinClusterQueue": "LowerPriority"})
    return kueue


def build(name: str, *, gpus: int = 4, **spec: Any) -> Object:
    return build_workload(name, pod_sets=[build_pod_set("head"), build_pod_set("workers", count=gpus, gpus=1)], **spec)


def say(type_: str, status: str, reason: str = "Test") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": NOW}


def test_a_workload_runs_through_preemption_and_finish(kueue: Kueue) -> None:
    kueue.submit(build("low"))
    kueue.until("low is admitted", lambda: is_true(kueue.list()["low"], "Admitted"))
    kueue.submit(build("high", priority=1))
    kueue.until("low is evicted", lambda: is_true(kueue.list()["low"], "Evicted"))
    kueue.settle()
    assert not is_true(kueue.list()["high"], "QuotaReserved"), "low still has its quota"
    kept = [each for each in kueue.list()["low"]["status"]["conditions"] if each["type"] == "Evicted"]
    freed = [say("QuotaReserved", "False"), say("Admitted", "False"), say("Requeued", "True", "Preempted")]
    kueue.patch("low", status={"admission": None, "conditions": [*kept, *freed]})
    kueue.until("high is admitted", lambda: is_true(kueue.list()["high"], "Admitted"))
    conditions = kueue.list()["high"]["status"]["conditions"]
    kueue.patch("high", status={"conditions": [*conditions, say("Finished", "True", "Succeeded")]})
    kueue.until("low is admitted again", lambda: is_true(kueue.list()["low"], "Admitted"))
    kueue.patch("low", active=False)
    kueue.until("low is evicted", lambda: is_true(kueue.list()["low"], "Evicted"))


def test_a_finalizer_holds_a_deleted_workload_without_owner_no_longer_than_a_round(kueue: Kueue) -> None:
    body = build("held")
    body["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    kueue.submit(body)
    # By the answer: Kueue's own program may have removed the finalizer before the next request.
    assert "deletionTimestamp" in kueue.delete("held")["metadata"]
    kueue.until("it is gone", lambda: "held" not in kueue.list())


def add_worker(workload: Object) -> None:
    workload["spec"]["podSets"][1]["count"] += 1


def change_template(workload: Object) -> None:
    workload["spec"]["podSets"][1]["template"]["spec"]["priorityClassName"] = "other"


def change_queue(workload: Object) -> None:
    workload["spec"]["queueName"] = "other"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (add_worker, "spec.podSets.*field is immutable"),
        (change_template, "spec.podSets.*field is immutable"),
        (change_queue, "queueName is immutable while workload quota reserved"),
    ],
)
def test_what_may_not_change_while_quota_is_reserved_may_before(
    kueue: Kueue, change: Callable[[Object], None], words: str
) -> None:
    kueue.submit(build("job", active=False))
    kueue.settle()
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{kueue.namespace}/workloads/job"
    body = kueue.list()["job"]
    change(body)
    assert kueue.server.request("PUT", path, body, dryRun="All").status == 200
    kueue.patch("job", active=True)
    kueue.until("quota", lambda: is_true(kueue.list()["job"], "QuotaReserved"))
    body = kueue.list()["job"]
    change(body)
    answer = kueue.server.request("PUT", path, body)
    assert answer.status in (403, 422), "a webhook answers 403, a rule of the CRD 422"
    assert re.search(words, answer.message)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"admission": None}, "must be set while the QuotaReserved condition is true"),
        ({"admission": {"clusterQueue": "other"}}, "status.admission: .*field is immutable"),
        ({"reclaimablePods": [{"name": "workers", "count": 9}]}, "should be less or equal"),
        ({"reclaimablePods": [{"name": "none", "count": 1}]}, "Unsupported value"),
        ({"conditions": [{"type": "QuotaReserved", "status": "False"}]}, "lastTransitionTime"),
        ({"conditions": [say("PodsReady", "True", "two words")]}, "reason"),
    ],
    ids=["admission alone", "another admission", "too many", "no such pod set", "half a condition", "a bad reason"],
)
def test_a_status_that_kueue_refuses_is_refused(kueue: Kueue, status: Object, words: str) -> None:
    kueue.submit(build("job"))
    kueue.until("quota", lambda: is_true(kueue.list()["job"], "QuotaReserved"))
    with pytest.raises(AssertionError, match=words):
        kueue.patch("job", status=status)


def test_reclaimable_pods_only_grow_while_quota_is_reserved(kueue: Kueue) -> None:
    kueue.submit(build("job"))
    kueue.until("quota", lambda: is_true(kueue.list()["job"], "QuotaReserved"))
    kueue.patch("job", status={"reclaimablePods": [{"name": "workers", "count": 2}]})
    with pytest.raises(AssertionError, match="cannot be less than"):
        kueue.patch("job", status={"reclaimablePods": [{"name": "workers", "count": 1}]})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"podSets": [build_pod_set("a", count=2, minCount=3)]}, "minCount should be positive"),
        ({"podSets": [build_pod_set("a", count=2, minCount=1), build_pod_set("b", minCount=1)]}, "at most one podSet"),
        ({"podSets": []}, "should have at least 1 items"),
        ({"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "a"}}, "priority"),
    ],
    ids=["more than all", "two elastic sets", "no pods", "a class without its value"],
)
def test_a_workload_that_kueue_refuses_is_refused(kueue: Kueue, spec: Object, words: str) -> None:
    body = build("job")
    body["spec"] |= spec
    with pytest.raises(AssertionError, match=words):
        kueue.submit(body)
