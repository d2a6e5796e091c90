"""Kueue's controllers as pure functions: the objects of a cluster in, changed Workloads out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from railhead.contract.times import format_time
from tests.kueue.quota import DoesNotFit, get_priority, nominate
from tests.kueue.topology import Nodes, place
from tests.kueue.workload import (
    FINALIZER,
    JOB_UID_LABEL,
    Object,
    back_off,
    evict,
    find_condition,
    get_transition,
    has_reason,
    holds_quota,
    is_active,
    is_admissible,
    is_true,
    remove_condition,
    reserve,
    set_condition,
    sync_admitted,
    unset_reservation,
)

BACKOFFS = ("PodsReadyTimeout", "AdmissionCheck")


@dataclass(frozen=True)
class World:
    """All objects of Kueue in the cluster, and its configuration; LocalQueues by (namespace, name).

    `pods_ready_timeout` is that of waitForPodsReady, None if that is off.
    """

    workloads: Sequence[Object]
    cluster_queues: dict[str, Object] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], Object] = field(default_factory=dict)
    flavors: dict[str, Object] = field(default_factory=dict)
    pods_ready_timeout: timedelta | None = None
    backoff_seconds: int = 60
    topology: Nodes = field(default_factory=Nodes)

    def find_queue(self, workload: Object) -> Object | None:
        """Returns the ClusterQueue of the Workload's LocalQueue."""
        local = self.local_queues.get((workload["metadata"]["namespace"], workload["spec"].get("queueName", "")))
        return self.cluster_queues.get(local["spec"]["clusterQueue"]) if local else None


def advance(world: World, now: datetime) -> list[Object]:
    """Returns the Workloads that one round of the controller and of the scheduler changes, as they should be."""
    after = [reconcile(copy.deepcopy(each), world, now) for each in world.workloads]
    for queue in world.cluster_queues.values():
        schedule(queue, [each for each in after if world.find_queue(each) is queue], world, now)
    return [new for old, new in zip(world.workloads, after, strict=True) if new != old]


def reconcile(workload: Object, world: World, now: datetime) -> Object:
    """pkg/controller/core/workload_controller.go, Reconcile; it returns the Workload that it was given, changed."""
    metadata = workload["metadata"]
    if not metadata.get("ownerReferences"):  # isOrphanedWorkload, pkg/workload/workload.go: FinalizeOrphanedWorkload
        is_deleting = "deletionTimestamp" in metadata
        if is_deleting or JOB_UID_LABEL in metadata.get("labels", {}):
            if not is_deleting and not is_true(workload, "Finished"):
                message = "The workload's owner no longer exists"
                set_condition(workload, "Finished", True, "OwnerNotFound", message, now)
            metadata["finalizers"] = [each for each in metadata.get("finalizers", ()) if each != FINALIZER]
            return workload
    if is_true(workload, "Finished"):
        return workload
    if not _settle_activity(workload, now):
        _reconcile_queue(workload, world, now)
    return workload


def _settle_activity(workload: Object, now: datetime) -> bool:
    """Whether this round has ended: deactivation, reactivation, and the end of a backoff."""
    status = workload["status"]
    target = find_condition(workload, "DeactivationTarget")
    if not is_active(workload):
        is_news = not is_true(workload, "Evicted") or "requeueState" in status
        if not is_true(workload, "Evicted"):
            cause = f"DueTo{target['reason']}" if target else ""
            why = f" due to {target['message']}" if target else ""
            evict(workload, f"Deactivated{cause}", f"The workload is deactivated{why}", now)
        remove_condition(workload, "DeactivationTarget")
        status.pop("requeueState", None)
        return is_news
    if target is not None and target["status"] == "True":
        workload["spec"]["active"] = False
        return True
    requeue_at = status.get("requeueState", {}).get("requeueAt")
    if requeue_at is not None and now < datetime.fromisoformat(requeue_at):
        return True
    if has_reason(workload, "Requeued", *BACKOFFS):
        status.get("requeueState", {}).pop("requeueAt", None)
        set_condition(workload, "Requeued", True, "BackoffFinished", "The workload backoff was finished", now)
        return True
    if has_reason(workload, "Requeued", "Deactivated"):
        set_condition(workload, "Requeued", True, "Reactivated", "The workload was reactivated", now)
        return True
    return False


def _reconcile_queue(workload: Object, world: World, now: datetime) -> None:
    queue = world.find_queue(workload)
    stop = queue["spec"].get("stopPolicy", "None") if queue else "None"
    if queue and stop == "None" and has_reason(workload, "Requeued", "ClusterQueueStopped"):
        message = "The ClusterQueue was restarted after being stopped"
        set_condition(workload, "Requeued", True, "ClusterQueueRestarted", message, now)
        return
    if queue:
        _sync_checks(workload, queue, now)
    if not is_true(workload, "Admitted"):
        if not is_true(workload, "QuotaReserved") and (blocker := find_blocker(workload, world)):
            set_condition(workload, "QuotaReserved", False, *blocker, now)
        sync_admitted(workload, now)
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Evicted"):
        return
    checks = workload["status"].get("admissionChecks", [])
    if has_exceeded(workload, now):  # reconcileMaxExecutionTime
        message = "exceeding the maximum execution time"
        set_condition(workload, "DeactivationTarget", True, "MaximumExecutionTimeExceeded", message, now)
        workload["status"].pop("accumulatedPastExecutionTimeSeconds", None)
    elif rejected := [each for each in checks if each["state"] == "Rejected"]:  # reconcileCheckBasedEviction
        message = _describe_checks(rejected)
        set_condition(workload, "DeactivationTarget", True, "AdmissionCheck", message, now)
    elif retried := [each for each in checks if each["state"] == "Retry"]:
        evict(workload, "AdmissionCheck", f"Evicted due to {_describe_checks(retried)}", now)
    elif is_true(workload, "Admitted") and stop == "HoldAndDrain":  # reconcileOnClusterQueueActiveState
        evict(workload, "ClusterQueueStopped", "The ClusterQueue is stopped", now)
    elif is_late(workload, world, now):  # reconcileNotReadyTimeout
        name = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
        back_off(workload, world.backoff_seconds, now)
        evict(workload, "PodsReadyTimeout", f"Exceeded the PodsReady timeout {name}", now)


def find_blocker(workload: Object, world: World) -> tuple[str, str] | None:
    """resolveGranularUnadmittedQuotaReservedCondition and getQueueBlocker: the reason and its message."""
    key = (workload["metadata"]["namespace"], workload["spec"].get("queueName", ""))
    local = world.local_queues.get(key)
    if not is_active(workload):
        return "Deactivated", "The workload is deactivated"
    if local is None:
        return "Misconfigured", f"LocalQueue {key[1]} doesn't exist"
    name = local["spec"]["clusterQueue"]
    queue = world.cluster_queues.get(name)
    if queue is None:
        return "Misconfigured", f"ClusterQueue {name} doesn't exist"
    if queue["spec"].get("stopPolicy", "None") != "None":
        return "Suspended", f"ClusterQueue {name} is inactive"
    return None


def _sync_checks(workload: Object, queue: Object, now: datetime) -> None:
    """reconcileSyncAdmissionChecks: the ClusterQueue's checks, the new ones Pending."""
    strategy = queue["spec"].get("admissionChecksStrategy", {}).get("admissionChecks", [])
    old = {each["name"]: each for each in workload["status"].get("admissionChecks", [])}
    new = {"state": "Pending", "message": "", "lastTransitionTime": format_time(now)}
    if strategy or old:
        workload["status"]["admissionChecks"] = [
            old.get(each["name"], {"name": each["name"], **new}) for each in strategy
        ]


def _describe_checks(checks: Sequence[Object]) -> str:
    """buildAdmissionChecksMessage."""
    names = "; ".join(f'"{each["name"]}" ({each["message"]})' for each in sorted(checks, key=lambda c: str(c["name"])))
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {checks[0]['state']} state: {names}"


def has_exceeded(workload: Object, now: datetime) -> bool:
    """reconcileMaxExecutionTime: the time of earlier admissions counts too."""
    most = workload["spec"].get("maximumExecutionTimeSeconds")
    if most is None or not is_true(workload, "Admitted"):
        return False
    past = workload["status"].get("accumulatedPastExecutionTimeSeconds", 0)
    return now - get_transition(workload, "Admitted") >= timedelta(seconds=most - past)


def is_late(workload: Object, world: World, now: datetime) -> bool:
    """admittedNotReadyWorkload, without the recovery's own timeout."""
    if world.pods_ready_timeout is None or not is_true(workload, "Admitted") or is_true(workload, "PodsReady"):
        return False
    ready = find_condition(workload, "PodsReady")
    waits = ready is None or ready["reason"] in ("WaitForStart", "PodsReady")
    return waits and now - get_transition(workload, "Admitted") >= world.pods_ready_timeout


def schedule(queue: Object, workloads: Sequence[Object], world: World, now: datetime) -> None:
    """pkg/scheduler/scheduler.go, schedule, for one ClusterQueue without a cohort and with BestEffortFIFO."""
    if queue["spec"].get("stopPolicy", "None") != "None":
        return
    pending = [each for each in workloads if is_admissible(each, now) and "deletionTimestamp" not in each["metadata"]]
    pending.sort(key=lambda each: (-get_priority(each), each["metadata"]["creationTimestamp"], each["metadata"]["uid"]))
    name = queue["metadata"]["name"]
    for workload in pending:
        holders = [each for each in workloads if holds_quota(each)]
        try:
            found, victims = nominate(workload, queue, world.flavors, holders)
            if not found.missing:
                pod_sets = place(found.pod_sets, workload, world.flavors, world.topology, holders)
                reserve(workload, name, pod_sets, now)
                continue
        except DoesNotFit as error:
            unset_reservation(workload, error.reason, error.message, now)
            continue
        (flavor, resource), amount = next(iter(sorted(found.missing.items())))
        said = f"couldn't assign flavors to pod set {workload['spec']['podSets'][0]['name']}: "
        said += f"insufficient unused quota for {resource} in flavor {flavor}, {amount:f} more needed"
        if not victims:
            unset_reservation(workload, "WaitingForQuota", said, now)
            continue
        _preempt(workload, victims, name, now)
        said += f". Pending the preemption of {len(victims)} workload(s)"
        unset_reservation(workload, "WaitingForPreemptedWorkloads", said, now)
        return  # what they release is this Workload's: later ones wait for it


def _preempt(workload: Object, victims: Sequence[Object], queue: str, now: datetime) -> None:
    """pkg/scheduler/preemption/preemption.go, IssuePreemptions and preemptionMessage."""
    uid, job = workload["metadata"]["uid"], workload["metadata"].get("labels", {}).get(JOB_UID_LABEL, "UNKNOWN")
    why = "prioritization in the ClusterQueue"
    message = f"Preempted to accommodate a workload (UID: {uid}, JobUID: {job}) due to {why}; "
    message += f"preemptor path: /{queue}; preemptee path: /{queue}"
    for victim in victims:
        if not is_true(victim, "Evicted"):
            set_condition(victim, "Preempted", True, "InClusterQueue", message, now)
            evict(victim, "Preempted", message, now)
