"""What a Workload's JSON says, and how Kueue changes its conditions.

Each function cites the file and the function of Kueue that it follows, from kubernetes-sigs/kueue.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from railhead.contract.times import format_time

Object = dict[str, Any]
FINALIZER = "kueue.x-k8s.io/resource-in-use"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"


def find_condition(workload: Object, type_: str) -> Object | None:
    return next((each for each in workload["status"].get("conditions", ()) if each["type"] == type_), None)


def is_true(workload: Object, type_: str) -> bool:
    found = find_condition(workload, type_)
    return found is not None and found["status"] == "True"


def has_reason(workload: Object, type_: str, *reasons: str) -> bool:
    """Whether the condition is False for one of these reasons."""
    found = find_condition(workload, type_)
    return found is not None and found["status"] == "False" and found["reason"] in reasons


def get_transition(workload: Object, type_: str) -> datetime:
    """Returns when the condition took its status; raises if there is no such condition."""
    found = find_condition(workload, type_)
    assert found is not None, type_
    return datetime.fromisoformat(found["lastTransitionTime"])


def set_condition(workload: Object, type_: str, status: bool, reason: str, message: str, now: datetime) -> None:
    """As k8s.io/apimachinery's meta.SetStatusCondition: the time changes with the status only."""
    conditions: list[Object] = workload["status"].setdefault("conditions", [])
    old = find_condition(workload, type_)
    text = "True" if status else "False"
    time = old["lastTransitionTime"] if old is not None and old["status"] == text else format_time(now)
    new = {
        "type": type_,
        "status": text,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
        "observedGeneration": workload["metadata"]["generation"],
    }
    if old is None:
        conditions.append(new)
    else:
        if all(old.get(key) == new[key] for key in ("status", "reason", "message")):
            return
        conditions[conditions.index(old)] = new


def remove_condition(workload: Object, type_: str) -> None:
    conditions = workload["status"].get("conditions", [])
    workload["status"]["conditions"] = [each for each in conditions if each["type"] != type_]


def is_active(workload: Object) -> bool:
    """pkg/workload/workload.go, IsActive."""
    return bool(workload["spec"].get("active", True))


def holds_quota(workload: Object) -> bool:
    """Whether its usage counts: pkg/cache/scheduler/cache.go, AddOrUpdateWorkload; a finished one is removed."""
    return is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")


def is_admissible(workload: Object, now: datetime) -> bool:
    """pkg/workload/workload.go, IsAdmissible, with pkg/cache/queue/cluster_queue.go, backoffWaitingTimeExpired."""
    if is_true(workload, "Finished") or not is_active(workload) or is_true(workload, "QuotaReserved"):
        return False
    requeued = find_condition(workload, "Requeued")
    if requeued is not None and requeued["status"] == "False":
        return False
    at = workload["status"].get("requeueState", {}).get("requeueAt")
    return at is None or now >= datetime.fromisoformat(at)


def sync_admitted(workload: Object, now: datetime) -> None:
    """pkg/workload/admissionchecks.go, SyncAdmittedCondition."""
    reserved, checks = is_true(workload, "QuotaReserved"), workload["status"].get("admissionChecks", [])
    if find_condition(workload, "QuotaReserved") is None and find_condition(workload, "Admitted") is None:
        return
    if not reserved:
        set_condition(workload, "Admitted", False, "NoReservation", "The workload has no reservation", now)
    elif any(each["state"] != "Ready" for each in checks):
        message = "The workload has not all checks ready"
        set_condition(workload, "Admitted", False, "UnsatisfiedAdmissionChecks", message, now)
    else:
        set_condition(workload, "Admitted", True, "Admitted", "The workload is admitted", now)


def reserve(workload: Object, queue: str, assignments: Sequence[Object], now: datetime) -> None:
    """pkg/workload/workload.go, SetQuotaReservation: the last eviction is over."""
    workload["status"]["admission"] = {"clusterQueue": queue, "podSetAssignments": list(assignments)}
    set_condition(workload, "QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}", now)
    for type_ in ("Evicted", "Preempted"):
        if (found := find_condition(workload, type_)) is not None and found["status"] == "True":
            set_condition(workload, type_, False, "QuotaReserved", f"Previously: {found['message']}", now)
    sync_admitted(workload, now)


def unset_reservation(workload: Object, reason: str, message: str, now: datetime) -> None:
    """pkg/workload/workload.go, UnsetQuotaReservationWithCondition."""
    set_condition(workload, "QuotaReserved", False, reason, message, now)
    workload["status"].pop("admission", None)
    sync_admitted(workload, now)


def evict(workload: Object, reason: str, message: str, now: datetime) -> None:
    """pkg/workload/evict/evict.go, prepareForEviction: the quota stays until the owner has released it."""
    set_condition(workload, "Evicted", True, reason, message, now)
    for check in workload["status"].get("admissionChecks", []):
        if check["state"] != "Pending":
            said = f"Reset to Pending after eviction. Previously: {check['state']}"
            check.update(state="Pending", message=said, lastTransitionTime=format_time(now))


def back_off(workload: Object, base_seconds: int, now: datetime) -> None:
    """pkg/workload/workload.go, UpdateRequeueState, without its jitter and its maximum."""
    count = workload["status"].get("requeueState", {}).get("count", 0) + 1
    at = now + timedelta(seconds=base_seconds * 2 ** (count - 1))
    workload["status"]["requeueState"] = {"count": count, "requeueAt": format_time(at.astimezone(UTC))}
