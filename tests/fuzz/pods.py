"""Pods of a job as kubelets, nodes and users leave them."""

from __future__ import annotations

from random import Random
from typing import Any

from railhead.api import names
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint
from tests.fuzz.rig import Rig
from tests.model.world import NAMESPACE

Object = dict[str, Any]
TIME = "2026-01-01T12:00:00Z"
CHECKPOINT = CommittedCheckpoint("/runs/digits/c7", 7, TIME, {"loss": "0.5"}, 1)
OUTCOME = Outcome("Application", "Raised", "ValueError: no", CHECKPOINT, CHECKPOINT, {"loss": "0.5"}, 9, 1, "w", 2, 1)


def find_pod(rig: Rig, role: str) -> Object:
    """A pod of the hostile job."""
    return next(
        pod
        for pod in rig.pods
        if pod["metadata"]["labels"][names.LABEL_ROLE] == role
        and pod["metadata"]["labels"][names.LABEL_JOB_UID] == rig.uid
        and pod["metadata"]["namespace"] == NAMESPACE
    )


def end_pod(pod: Object, message: str, *, code: int = 1) -> Object:
    """The pod after its container has ended."""
    ended = {"exitCode": code, "reason": "Error", "message": message, "startedAt": TIME, "finishedAt": TIME}
    return {
        **pod,
        "status": {"phase": "Failed", "containerStatuses": [{"name": "ray", "state": {"terminated": ended}}]},
    }


def choose_state(pod: Object, random: Random) -> Object:
    """The pod in some state."""
    gone = {"deletionTimestamp": TIME, "deletionGracePeriodSeconds": 30}
    waiting = {"name": "ray", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    fetch = {"exitCode": 65, "message": OUTCOME.to_json(), "finishedAt": TIME}
    fetched = [{"name": names.FETCH_CONTAINER, "state": {"terminated": fetch}}]
    conditions = [
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "tainted"},
        {"type": "Ready", "status": "False", "lastTransitionTime": TIME},
    ]
    no_room = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]
    states: tuple[Object, ...] = (
        pod,
        end_pod(pod, OUTCOME.to_json(), code=64),
        {**pod, "metadata": {**pod["metadata"], **gone}, "status": {**pod["status"], "conditions": conditions}},
        {**pod, "status": {"phase": "Pending", "containerStatuses": [waiting]}},
        {**pod, "status": {"phase": "Pending", "conditions": no_room}},
        {**pod, "status": {"phase": "Failed", "reason": "Evicted", "message": "memory", "conditions": conditions}},
        {**pod, "status": {"phase": "Failed", "initContainerStatuses": fetched}},
    )
    return random.choice(states)
