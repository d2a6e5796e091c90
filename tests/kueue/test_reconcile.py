"""Kueue's controllers without an API server: quota, order, preemption, eviction and requeueing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from railhead.contract.times import format_time
from tests.kueue.client import build_pod_set, build_workload
from tests.kueue.reconcile import World, advance
from tests.kueue.workload import (
    FINALIZER,
    JOB_UID_LABEL,
    Object,
    find_condition,
    is_true,
    set_condition,
    unset_reservation,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def make_workload(name: str, *, gpus: int = 0, age: int = 0, pod_sets: Sequence[Object] = (), **spec: Any) -> Object:
    """One head pod, and worker pods with one GPU each; `age`: created so many seconds later."""
    sets = list(pod_sets) or [build_pod_set("head"), build_pod_set("workers", count=gpus, gpus=1)]
    body = build_workload(name, pod_sets=sets, **spec)
    body["metadata"] |= {
        "namespace": "default",
        "uid": name,
        "generation": 1,
        "creationTimestamp": format_time(START + timedelta(seconds=age)),
        "ownerReferences": [{"name": name}],
    }
    return {**body, "status": {}}


def make_queue(*, gpus: int = 8, flavors: Sequence[str] = ("a",), **spec: Any) -> Object:
    quotas = {"cpu": "100", "memory": "100Gi", "nvidia.com/gpu": str(gpus)}
    resources = [{"name": key, "nominalQuota": value} for key, value in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": each, "resources": resources} for each in flavors]}
    return {"metadata": {"name": "queue"}, "spec": {"resourceGroups": [group], **spec}}


def make_world(*workloads: Object, queue: Object | None = None, **fields: Any) -> World:
    local = {("default", "team"): {"spec": {"clusterQueue": "queue"}}}
    flavors: dict[str, Object] = {name: {"spec": {}} for name in ("a", "b")}
    found = World(workloads, {"queue": queue or make_queue()}, local, flavors)
    return replace(found, **fields)


def settle(world: World, now: datetime = START) -> World:
    """Rounds until nothing changes."""
    for _ in range(20):
        changed = {each["metadata"]["name"]: each for each in advance(world, now)}
        if not changed:
            return world
        world = replace(world, workloads=[changed.get(w["metadata"]["name"], w) for w in world.workloads])
    raise AssertionError("no end")


def get(world: World, name: str) -> Object:
    return next(each for each in world.workloads if each["metadata"]["name"] == name)


def why(workload: Object, type_: str = "QuotaReserved") -> str:
    found = find_condition(workload, type_)
    return f"{found['status']}: {found['reason']}" if found else ""


def release(workload: Object, now: datetime = START) -> None:
    """As the owner of an evicted Workload: pkg/controller/jobframework/reconciler.go, ReconcileGenericJob, step 6."""
    evicted = find_condition(workload, "Evicted")
    assert evicted is not None
    is_preempted = evicted["reason"] == "Preempted"
    set_condition(workload, "Requeued", is_preempted, evicted["reason"], evicted["message"], now)
    unset_reservation(workload, "PendingEvaluation", evicted["message"], now)


def test_quota_is_reserved_for_all_pods_or_for_none() -> None:
    world = settle(make_world(make_workload("first", gpus=6), make_workload("second", gpus=6, age=1)))
    assert is_true(get(world, "first"), "Admitted")
    [head, workers] = get(world, "first")["status"]["admission"]["podSetAssignments"]
    assert head["resourceUsage"] == {"cpu": "1", "memory": "1073741824"}
    assert workers["count"] == 6
    assert workers["flavors"] == {"cpu": "a", "memory": "a", "nvidia.com/gpu": "a"}
    second = get(world, "second")
    assert why(second) == "False: WaitingForQuota"
    assert "nvidia.com/gpu in flavor a, 4 more needed" in find_condition(second, "QuotaReserved")["message"]  # type: ignore[index]
    assert why(second, "Admitted") == "False: NoReservation"


def test_a_smaller_workload_goes_first_where_the_head_of_the_queue_does_not_fit() -> None:
    """BestEffortFIFO."""
    jobs = [make_workload(name, gpus=gpus, age=n) for n, (name, gpus) in enumerate([("a", 6), ("b", 6), ("c", 2)])]
    world = settle(make_world(*jobs))
    assert [is_true(get(world, name), "Admitted") for name in "abc"] == [True, False, True]


@pytest.mark.parametrize("ending", ["Finished", "gone"])
def test_quota_is_free_when_a_workload_is_finished_or_gone(ending: str) -> None:
    world = settle(make_world(make_workload("first", gpus=6), make_workload("second", gpus=6, age=1)))
    if ending == "gone":
        world = replace(world, workloads=[get(world, "second")])
    else:
        set_condition(get(world, "first"), "Finished", True, "Succeeded", "", START)
    assert is_true(get(settle(world), "second"), "Admitted")


def test_reclaimable_pods_give_their_share_back() -> None:
    world = settle(make_world(make_workload("first", gpus=6), make_workload("second", gpus=4, age=1)))
    get(world, "first")["status"]["reclaimablePods"] = [{"name": "workers", "count": 2}]
    assert is_true(get(settle(world), "second"), "Admitted")


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (make_workload("big", gpus=9), "ExceedsMaxQuota"),
        (make_workload("lost", gpus=1, queue="none"), "Misconfigured"),
        (make_workload("odd", pod_sets=[build_pod_set("head", template={})]), "NoMatchingFlavor"),
    ],
    ids=["too big", "no LocalQueue", "a resource without quota"],
)
def test_the_reason_says_why_a_workload_is_not_admitted(workload: Object, reason: str) -> None:
    if reason == "NoMatchingFlavor":
        container = {"name": "main", "resources": {"requests": {"vendor.example/nic": "1"}}}
        workload["spec"]["podSets"][0]["template"] = {"spec": {"containers": [container]}}
    assert why(get(settle(make_world(workload)), workload["metadata"]["name"])) == f"False: {reason}"


def test_a_flavor_with_an_untolerated_taint_or_another_label_is_passed_over() -> None:
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    queue = make_queue(flavors=("a", "b"))
    flavors: dict[str, Object] = {"a": {"spec": {"nodeTaints": [taint]}}, "b": {"spec": {"nodeLabels": {"zone": "1"}}}}
    world = settle(make_world(make_workload("job", gpus=1), queue=queue, flavors=flavors))
    assert get(world, "job")["status"]["admission"]["podSetAssignments"][1]["flavors"]["cpu"] == "b"
    picky = make_workload("picky", gpus=1)
    picky["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"] = {"zone": "2"}
    assert why(get(settle(make_world(picky, queue=queue, flavors=flavors)), "picky")) == "False: NoMatchingFlavor"
    own = [{"key": "spot", "operator": "Exists"}]  # the flavor gives them to the pods
    tolerant: dict[str, Object] = {**flavors, "a": {"spec": {"nodeTaints": [taint], "tolerations": own}}}
    world = settle(make_world(make_workload("job", gpus=1), queue=queue, flavors=tolerant))
    assert get(world, "job")["status"]["admission"]["podSetAssignments"][1]["flavors"]["cpu"] == "a"


def test_an_elastic_workload_is_admitted_with_as_many_pods_as_fit() -> None:
    sets = [build_pod_set("head"), build_pod_set("workers", count=8, gpus=1, minCount=2)]
    world = settle(make_world(make_workload("first", gpus=5), make_workload("elastic", age=1, pod_sets=sets)))
    assert [each["count"] for each in get(world, "elastic")["status"]["admission"]["podSetAssignments"]] == [1, 3]


LOWER = {"withinClusterQueue": "LowerPriority"}


def test_the_preempted_workload_keeps_its_quota_until_its_owner_releases_it() -> None:
    low, high = make_workload("low", gpus=6, priority=1), make_workload("high", gpus=6, age=1, priority=2)
    world = settle(make_world(low, queue=make_queue(preemption=LOWER)))
    world = settle(replace(world, workloads=[*world.workloads, high]))
    assert why(get(world, "low"), "Evicted") == "True: Preempted"
    assert why(get(world, "low"), "Preempted") == "True: InClusterQueue"
    assert is_true(get(world, "low"), "QuotaReserved")
    assert why(get(world, "high")) == "False: WaitingForPreemptedWorkloads"
    release(get(world, "low"))
    world = settle(world)
    assert is_true(get(world, "high"), "Admitted")
    assert why(get(world, "low")) == "False: WaitingForQuota"
    set_condition(get(world, "high"), "Finished", True, "Succeeded", "", START)
    world = settle(world)
    assert why(get(world, "low"), "Evicted") == "False: QuotaReserved"
    assert is_true(get(world, "low"), "Admitted")


def test_no_more_workloads_are_preempted_than_needed_the_lowest_first() -> None:
    small = [make_workload(f"job-{n}", gpus=2, age=n, priority=p) for n, p in enumerate([3, 1, 2, 5])]
    world = settle(make_world(*small, queue=make_queue(preemption=LOWER)))
    world = settle(replace(world, workloads=[*world.workloads, make_workload("big", gpus=4, age=9, priority=4)]))
    evicted = [each["metadata"]["name"] for each in world.workloads if is_true(each, "Evicted")]
    assert evicted == ["job-1", "job-2"]


@pytest.mark.parametrize(("policy", "count"), [("Never", 0), ("LowerPriority", 0), ("LowerOrNewerEqualPriority", 1)])
def test_workloads_of_equal_priority_are_preempted_by_the_policy_only(policy: str, count: int) -> None:
    queue = make_queue(preemption={"withinClusterQueue": policy})
    world = settle(make_world(make_workload("newer", gpus=6, age=9), queue=queue))
    world = settle(replace(world, workloads=[*world.workloads, make_workload("older", gpus=6)]))
    assert sum(is_true(each, "Evicted") for each in world.workloads) == count


def test_a_deactivated_workload_is_evicted_and_comes_back_when_it_is_active_again() -> None:
    world = settle(make_world(make_workload("job", gpus=1)))
    get(world, "job")["spec"]["active"] = False
    world = settle(world)
    assert why(get(world, "job"), "Evicted") == "True: Deactivated"
    assert is_true(get(world, "job"), "Admitted"), "until its owner releases it"
    release(get(world, "job"))
    world = settle(world)
    assert why(get(world, "job")) == "False: Deactivated"
    get(world, "job")["spec"]["active"] = True
    world = settle(world)
    assert why(get(world, "job"), "Requeued") == "True: Reactivated"
    assert is_true(get(world, "job"), "Admitted")


def test_a_release_that_leaves_admitted_true_stays_admitted_without_quota() -> None:
    """Kueue changes Admitted only where it is not True, so its owner must change it too."""
    world = settle(make_world(make_workload("job", gpus=6), make_workload("other", gpus=6, age=1, active=False)))
    job = get(world, "job")
    set_condition(job, "QuotaReserved", False, "PendingEvaluation", "", START)
    del job["status"]["admission"]
    job["spec"]["active"] = False
    get(world, "other")["spec"]["active"] = True
    world = settle(world)
    assert is_true(get(world, "job"), "Admitted")
    assert is_true(get(world, "other"), "Admitted")


def test_an_admission_check_holds_back_retries_and_rejects() -> None:
    queue = make_queue(admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    world = settle(make_world(make_workload("job", gpus=1), queue=queue))
    job = get(world, "job")
    assert is_true(job, "QuotaReserved")
    assert why(job, "Admitted") == "False: UnsatisfiedAdmissionChecks"
    job["status"]["admissionChecks"][0]["state"] = "Ready"
    world = settle(world)
    assert is_true(get(world, "job"), "Admitted")
    get(world, "job")["status"]["admissionChecks"][0] |= {"state": "Retry", "message": "no nodes"}
    world = settle(world)
    assert why(get(world, "job"), "Evicted") == "True: AdmissionCheck"
    assert get(world, "job")["status"]["admissionChecks"][0]["state"] == "Pending"
    release(get(world, "job"))
    world = settle(world)
    assert why(get(world, "job"), "Requeued") == "True: BackoffFinished"
    get(world, "job")["status"]["admissionChecks"][0] |= {"state": "Rejected", "message": "no budget"}
    world = settle(world)
    assert get(world, "job")["spec"]["active"] is False, "Kueue itself deactivates it"
    assert why(get(world, "job"), "Evicted") == "True: DeactivatedDueToAdmissionCheck"


def test_a_stopped_cluster_queue_drains_and_takes_its_workloads_back() -> None:
    world = settle(make_world(make_workload("job", gpus=1)))
    stopped = make_queue(stopPolicy="HoldAndDrain")
    world = settle(replace(world, cluster_queues={"queue": stopped}))
    assert why(get(world, "job"), "Evicted") == "True: ClusterQueueStopped"
    release(get(world, "job"))
    world = settle(world)
    assert why(get(world, "job")) == "False: Suspended"
    world = settle(replace(world, cluster_queues={"queue": make_queue()}))
    assert is_true(get(world, "job"), "Admitted")


def test_pods_that_are_late_cost_the_quota_and_a_growing_backoff() -> None:
    world = settle(make_world(make_workload("job", gpus=1), pods_ready_timeout=5 * MINUTE))
    assert not advance(world, START + 4 * MINUTE)
    world = settle(world, START + 5 * MINUTE)
    assert why(get(world, "job"), "Evicted") == "True: PodsReadyTimeout"
    release(get(world, "job"), START + 5 * MINUTE)
    world = settle(world, START + 5 * MINUTE)
    assert not is_true(get(world, "job"), "QuotaReserved")
    world = settle(world, START + 6 * MINUTE)
    assert is_true(get(world, "job"), "Admitted")
    set_condition(get(world, "job"), "PodsReady", True, "Started", "", START + 7 * MINUTE)
    world = settle(world, START + 60 * MINUTE)
    assert is_true(get(world, "job"), "Admitted"), "ready in time"
    assert get(world, "job")["status"]["requeueState"] == {"count": 1}


def test_the_maximum_execution_time_deactivates_and_counts_earlier_admissions() -> None:
    world = settle(make_world(make_workload("job", gpus=1, maximumExecutionTimeSeconds=300)))
    get(world, "job")["status"]["accumulatedPastExecutionTimeSeconds"] = 120
    assert not advance(world, START + 2 * MINUTE)
    world = settle(world, START + 3 * MINUTE)
    assert why(get(world, "job"), "Evicted") == "True: DeactivatedDueToMaximumExecutionTimeExceeded"
    assert "accumulatedPastExecutionTimeSeconds" not in get(world, "job")["status"]


@pytest.mark.parametrize("is_deleting", [True, False])
def test_a_workload_without_owner_is_finished_and_loses_its_finalizer(is_deleting: bool) -> None:
    job = make_workload("job", gpus=1)
    job["metadata"] |= {"ownerReferences": [], "finalizers": [FINALIZER], "labels": {JOB_UID_LABEL: "uid"}}
    if is_deleting:
        job["metadata"]["deletionTimestamp"] = format_time(START)
    found = get(settle(make_world(job)), "job")
    assert found["metadata"]["finalizers"] == []
    assert why(found, "Finished") == ("" if is_deleting else "True: OwnerNotFound")
    job["metadata"]["ownerReferences"] = [{"name": "job"}]
    assert get(settle(make_world(job)), "job")["metadata"]["finalizers"] == [FINALIZER], "its owner removes it"
