"""Turns the facts about a pod's containers into the status that a kubelet would report. Pure.

A container is waiting, running or terminated. The pod is Pending until its containers have
started, Running while one runs or is to be restarted, and then Succeeded or Failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from railhead.api.base import Object

ENVIRONMENT_NOTE = "not pulled: runs in the host's environment"


@dataclass(frozen=True)
class ContainerFacts:
    """One container at one moment. Times are RFC 3339."""

    name: str
    image: str
    state: Literal["waiting", "running", "terminated"] = "waiting"
    reason: str = "ContainerCreating"
    message: str = ""
    started_at: str = ""
    finished_at: str = ""
    exit_code: int = 0
    restarts: int = 0
    is_init: bool = False
    is_ready: bool = True
    container_id: str = ""

    @property
    def has_ended_well(self) -> bool:
        return self.state == "terminated" and self.exit_code == 0


def exit_code_of(return_code: int) -> int:
    """A shell's convention: death by signal n is 128 + n."""
    return 128 - return_code if return_code < 0 else return_code


def must_restart(policy: str, exit_code: int, *, is_init: bool = False) -> bool:
    if policy == "Always" and not is_init:
        return True
    return policy != "Never" and exit_code != 0


def restart_delay_seconds(restarts: int) -> float:
    """A kubelet's crash backoff: 10 s, doubled each time, at most 5 minutes."""
    return min(300.0, 10.0 * (1 << min(max(restarts - 1, 0), 6))) if restarts > 0 else 0.0


def pod_phase(containers: Sequence[ContainerFacts], *, policy: str) -> str:
    inits = [c for c in containers if c.is_init]
    mains = [c for c in containers if not c.is_init]
    failed_init = any(c.state == "terminated" and c.exit_code and not must_restart(policy, 1) for c in inits)
    if failed_init:
        return "Failed"
    if any(not c.has_ended_well for c in inits) or any(c.state == "waiting" and not c.restarts for c in mains):
        return "Pending"
    if all(c.state == "terminated" and not must_restart(policy, c.exit_code) for c in mains):
        return "Succeeded" if all(c.exit_code == 0 for c in mains) else "Failed"
    return "Running"


def build_status(
    containers: Sequence[ContainerFacts], *, policy: str, address: str, node_address: str, start_time: str, now: str
) -> Object:
    """The pod's status, for a strategic merge patch (PodScheduled is the scheduler's and stays)."""
    mains = [c for c in containers if not c.is_init]
    phase = pod_phase(containers, policy=policy)
    are_ready = phase == "Running" and all(c.state == "running" and c.is_ready for c in mains)
    has_begun = all(c.has_ended_well for c in containers if c.is_init)
    status: Object = {
        "phase": phase,
        "startTime": start_time,
        "hostIP": node_address,
        "hostIPs": [{"ip": node_address}],
        "containerStatuses": [container_status(c) for c in mains],
        "conditions": [
            _condition("Initialized", has_begun, phase, now),
            _condition("ContainersReady", are_ready, phase, now),
            _condition("Ready", are_ready, phase, now),
        ],
    }
    if address:
        # Address lists are merged, and the address from an earlier agent must not stay.
        status |= {"podIP": address, "podIPs": [{"$patch": "replace"}, {"ip": address}]}
    inits = [container_status(c) for c in containers if c.is_init]
    if inits:
        status["initContainerStatuses"] = inits
    return status


def container_status(facts: ContainerFacts) -> Object:
    states: Mapping[str, Object] = {
        "waiting": {"reason": facts.reason, "message": facts.message},
        "running": {"startedAt": facts.started_at},
        "terminated": {
            "exitCode": facts.exit_code,
            "reason": facts.reason,
            "message": facts.message,
            "startedAt": facts.started_at,
            "finishedAt": facts.finished_at,
            "containerID": facts.container_id,
        },
    }
    state = {key: value for key, value in states[facts.state].items() if value != ""}
    return {
        "name": facts.name,
        "image": facts.image,
        "imageID": ENVIRONMENT_NOTE,
        "containerID": facts.container_id,
        "restartCount": facts.restarts,
        "ready": facts.state == "running" and facts.is_ready,
        "started": facts.state == "running",
        "state": {facts.state: state},
    }


def _condition(type_: str, is_true: bool, phase: str, now: str) -> Object:
    condition = {"type": type_, "status": "True" if is_true else "False", "lastTransitionTime": now}
    if not is_true:
        condition["reason"] = "PodCompleted" if phase in ("Succeeded", "Failed") else "ContainersNotReady"
    return condition
