"""Turns raw pods into `PodView`s: the few facts that decisions need. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from railhead.api import names
from railhead.contract.printable import clean_text
from railhead.contract.times import parse_time
from railhead.kube.types import Object
from railhead.planning.facts.disruptions import DELETION_BY_TAINT
from railhead.planning.facts.reasons import SCHEDULING_GATED, UNSCHEDULABLE
from railhead.planning.pod_view import Disruption, PodView, Problem

# A container waiting with one of these reasons has not started and will not without intervention.
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
OUTCOME_OF_NO_INTEREST = frozenset({"", "Error", "Completed"})


@dataclass(frozen=True, slots=True)
class PodRecord:
    """All that is kept of a pod: its view and the uid of the TrainJob that controls it, or ""."""

    owner: str
    view: PodView


def record_pod(pod: Object) -> PodRecord:
    return PodRecord(owner_uid(pod), observe_pod(pod))


def observe_pod(pod: Object) -> PodView:
    """The view of one of our pods: its identity from the labels, its state from the status."""
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    labels = metadata.get("labels") or {}
    state = _container_state(status)
    container, ended = _end(state, status)
    disruption = _disruption(status)
    grace = metadata.get("deletionGracePeriodSeconds")
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
        message=clean_text(str(ended.get("message") or status.get("message") or "")[:8192]),
        finished_at=_time(ended.get("finishedAt")),
        problem=_problem(status),
        disruption=disruption,
        container=container,
        created_at=_time(metadata.get("creationTimestamp")),
        deletion_timestamp=_time(metadata.get("deletionTimestamp")),
        grace_seconds=grace if isinstance(grace, int) else 0,
        is_silent=disruption is not None and disruption.reason == DELETION_BY_TAINT and _is_marked(status, state),
    )


def owner_uid(obj: Object) -> str:
    """The uid of the TrainJob that controls the object, or ""."""
    for owner in (obj.get("metadata") or {}).get("ownerReferences") or []:
        group = str(owner.get("apiVersion") or "").partition("/")[0]  # Kubeflow has a TrainJob, too
        if owner.get("controller") and (group, owner.get("kind")) == (names.GROUP, names.KIND):
            return str(owner.get("uid") or "")
    return ""


def _container_state(status: Object) -> Object:
    for container in status.get("containerStatuses") or []:
        if container.get("name") == names.CONTAINER:
            return container.get("state") or {}
    return {}


def _end(state: Object, status: Object) -> tuple[str, Object]:
    """The container whose end is the pod's, and that end: ray, or an init container that kept it from starting."""
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
        message = f"init container {name} ended with code {end['exitCode']}: {end.get('message') or ''}".strip(" :")
        return name, {**end, "message": message, "exitCode": None}  # its exit codes are not ours
    return names.CONTAINER, {}


def _disruption(status: Object) -> Disruption | None:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return Disruption(str(condition.get("reason") or ""), str(condition.get("message") or ""))
    return None


def _is_marked(status: Object, state: Object) -> bool:
    """Not ready although its container runs: Kubernetes marks the pods of a node whose kubelet does not respond."""
    ready = [each.get("status") for each in status.get("conditions") or [] if each.get("type") == "Ready"]
    return bool(state.get("running")) and ready == ["False"]


def _reason(status: Object, ended: Object) -> str:
    reason = str(ended.get("reason") or "")
    return str(status.get("reason") or "") if reason in OUTCOME_OF_NO_INTEREST else reason


def _problem(status: Object) -> Problem | None:
    for condition in status.get("conditions") or []:
        if (condition.get("type"), condition.get("status")) != ("PodScheduled", "False"):
            continue
        if condition.get("reason") == UNSCHEDULABLE:
            return Problem(UNSCHEDULABLE, str(condition.get("message") or "no node fits"))
        if condition.get("reason") == SCHEDULING_GATED:
            message = "the pod has scheduling gates, which a queue or another controller has to remove"
            return Problem(SCHEDULING_GATED, message)
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in STUCK:
            message = waiting.get("message") or waiting["reason"]
            return Problem(str(waiting["reason"]), f"container {container.get('name')}: {message}")
    return None


def _number(text: object, default: int) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else default


def _time(text: object) -> datetime | None:
    return parse_time(text) if isinstance(text, str) else None
