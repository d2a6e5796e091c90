"""Writes the status of pods as a kubelet does, on an API server without any."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from benchmarks.scale.api import Api, Object, for_each
from benchmarks.scale.plane import PODS
from railhead.contract.times import format_time


def build_running(pod: Object) -> Object:
    """The status of a pod all of whose containers run."""
    return {**_build_base(pod, is_ready=True), "phase": "Running"}


def build_succeeded(pod: Object, *, message: str) -> Object:
    """The status of a pod whose first container has ended with this termination message."""
    status = _build_base(pod, is_ready=False)
    now = format_time(datetime.now(UTC))
    ended = {"exitCode": 0, "reason": "Completed", "message": message, "startedAt": now, "finishedAt": now}
    status["containerStatuses"][0]["state"] = {"terminated": ended}
    return {**status, "phase": "Succeeded"}


async def run_pods(api: Api, pods: Iterable[Object]) -> None:
    await for_each(pods, lambda pod: set_status(api, pod["metadata"]["name"], build_running(pod)))


async def set_status(api: Api, pod: str, status: Object) -> None:
    await api.merge(f"{PODS}/{pod}/status", {"status": status})


def _build_base(pod: Object, *, is_ready: bool) -> Object:
    now = format_time(datetime.now(UTC))
    kinds = {"PodScheduled": True, "Initialized": True, "ContainersReady": is_ready, "Ready": is_ready}
    conditions = [{"type": kind, "status": str(holds), "lastTransitionTime": now} for kind, holds in kinds.items()]
    containers = [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": f"{each['image']}@sha256:{'0' * 64}",
            "containerID": f"containerd://{'0' * 64}",
            "ready": is_ready,
            "started": is_ready,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for each in pod["spec"]["containers"]
    ]
    address = {"hostIP": "10.0.0.1", "podIP": "10.0.0.2", "startTime": now}
    return {"conditions": conditions, "containerStatuses": containers, **address}
