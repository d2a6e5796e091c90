"""Raw pods become `PodView`s: the few facts that decisions are made from. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api import names
from railhead.contract.times import parse_time
from railhead.kube.types import Object
from railhead.planning.pod_view import PodView, Problem

# A container that waits for one of these has not started and will not without somebody's help.
STUCK = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
    }
)
STAMPS = ("creationTimestamp", "deletionTimestamp")
ENDED_WITHIN = timedelta(seconds=5)  # from the end of the grace period until everybody has seen the pod go
OUTCOME_OF_NO_INTEREST = frozenset({"", "Error", "Completed"})


def observe_pod(pod: Object) -> PodView:
    """The view of a pod of ours; labels say which, the status says how it is."""
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    labels = metadata.get("labels") or {}
    state = _container_state(status)
    container, ended = _end(state, status)
    return PodView(
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid")),
        role=str(labels.get(names.LABEL_ROLE, "")),
        attempt=_number(labels.get(names.LABEL_ATTEMPT), 0),
        slot=_number(labels.get(names.LABEL_SLOT), -1),
        round=_number(labels.get(names.LABEL_ROUND), 0),
        phase=str(status.get("phase") or "Pending"),
        is_running=bool(state.get("running")) and status.get("phase") == "Running",
        is_deleting=bool(metadata.get("deletionTimestamp")),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        exit_code=ended.get("exitCode") if isinstance(ended.get("exitCode"), int) else None,
        reason=_reason(status, ended),
        message=str(ended.get("message") or status.get("message") or "")[:8192],
        finished_at=_time(ended.get("finishedAt")),
        problem=_problem(status),
        container=container,
        created_at=_time(metadata.get("creationTimestamp")),
        gone_by=_gone_by(metadata),
    )


def slim_pod(pod: Object) -> Object:
    """What the store keeps of a pod: who it is, whose it is, how it is."""
    metadata = pod.get("metadata") or {}
    keys = ("name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences", *STAMPS)
    return {
        "metadata": {key: metadata[key] for key in keys if key in metadata},
        "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName")},
        "status": pod.get("status") or {},
    }


def _gone_by(metadata: Object) -> datetime | None:
    """The API server's own stamp: when the deletion was asked for, plus the grace period."""
    at = _time(metadata.get("deletionTimestamp"))
    return at + ENDED_WITHIN if at else None


def owner_uid(obj: Object) -> str:
    """The uid of the TrainJob that controls the object, or nothing."""
    for owner in (obj.get("metadata") or {}).get("ownerReferences") or []:
        if owner.get("controller") and owner.get("kind") == names.KIND:
            return str(owner.get("uid") or "")
    return ""


def _container_state(status: Object) -> Object:
    for container in status.get("containerStatuses") or []:
        if container.get("name") == names.CONTAINER:
            return container.get("state") or {}
    return {}


def _end(state: Object, status: Object) -> tuple[str, Object]:
    """Which container's end is the pod's: that of ray, or of an init container that kept it from starting."""
    ended = state.get("terminated")
    if ended or status.get("phase") != "Failed":
        return names.CONTAINER, ended or {}
    for container in status.get("initContainerStatuses") or []:
        end = (container.get("state") or {}).get("terminated") or {}
        if not end.get("exitCode"):
            continue
        name = str(container.get("name"))
        if name == names.FETCH_CONTAINER:
            return name, end
        words = f"init container {name} ended with code {end['exitCode']}: {end.get('message') or ''}".strip(" :")
        return name, {**end, "message": words, "exitCode": None}  # its codes mean nothing to us
    return names.CONTAINER, {}


def _reason(status: Object, ended: Object) -> str:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return str(condition.get("reason") or "Evicted")
    reason = str(ended.get("reason") or "")
    return str(status.get("reason") or "") if reason in OUTCOME_OF_NO_INTEREST else reason


def _problem(status: Object) -> Problem | None:
    for condition in status.get("conditions") or []:
        is_refused = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        if is_refused and condition.get("reason") == "Unschedulable":
            return Problem("Unschedulable", str(condition.get("message") or "no node fits"))
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in STUCK:
            words = waiting.get("message") or waiting["reason"]
            return Problem(str(waiting["reason"]), f"container {container.get('name')}: {words}")
    return None


def _number(text: object, default: int) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else default


def _time(text: object) -> datetime | None:
    return parse_time(text) if isinstance(text, str) else None
