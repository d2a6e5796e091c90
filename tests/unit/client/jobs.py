"""TrainJobs, pods and events as the API server returns them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.json_object import Object

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
STARTED = "2026-11-25T10:00:00Z"


def make_condition(type_: str, reason: str, message: str = "", *, status: str = "True") -> Object:
    since = "2026-11-25T11:48:00Z"
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def make_job(
    name: str = "digits", *, conditions: Sequence[Object] = (), spec: Object | None = None, **status: Any
) -> Object:
    """A job that an operator has seen, if any part of its status is given."""
    seen: Object = {"observedGeneration": 1, "conditions": list(conditions), **status} if status or conditions else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"uid-{name}",
            "creationTimestamp": STARTED,
            "generation": 1,
        },
        "spec": {"image": "registry.example/train:1", "scaling": {"numWorkers": 2}, **(spec or {})},
        "status": seen,
    }


def make_failed(class_: str, reason: str, message: str = "it says why", **fields: Any) -> Object:
    """A job whose last attempt failed for good."""
    failure = {"class": class_, "reason": reason, "message": message, "attempt": 2, "node": "gpu-7", **fields}
    conditions = [make_condition("Failed", reason, message), make_condition("Stalled", reason, message)]
    return make_job(phase="Failed", attempt=2, conditions=conditions, failure=failure)


def make_waiting(reason: str, message: str = "", *, phase: str = "Pending", **status: Any) -> Object:
    """A job in transition."""
    return make_job(phase=phase, attempt=1, conditions=[make_condition("Reconciling", reason, message)], **status)


def make_running(**status: Any) -> Object:
    """A job that trains."""
    conditions = [make_condition("Running", "Training"), *status.pop("others", [])]
    return make_job(phase="Running", attempt=1, conditions=conditions, **status)


def make_pod(name: str, *, slot: int = -1, attempt: int = 1, **status: Any) -> Object:
    labels = {"railhead.dev/role": "worker" if slot >= 0 else "head", "railhead.dev/attempt": str(attempt)}
    if slot >= 0:
        labels["railhead.dev/slot"] = str(slot)
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Pending", **status},
    }


def make_waiting_container(reason: str, message: str = "") -> Object:
    return {"containerStatuses": [{"name": "ray", "state": {"waiting": {"reason": reason, "message": message}}}]}


def make_event(reason: str, message: str, at: str = "2026-11-25T11:50:00Z", count: int = 1) -> Object:
    return {"reason": reason, "message": message, "type": "Normal", "lastTimestamp": at, "count": count}


def make_snapshot(job: Object, pods: Sequence[Object] = (), events: Sequence[Object] = ()) -> JobSnapshot:
    return JobSnapshot(job, tuple(pods), tuple(events), NOW)
