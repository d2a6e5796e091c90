"""Volcano. Its queue is that of the annotation scheduling.volcano.sh/queue-name of podTemplate, else `default`."""

from __future__ import annotations

from railhead.json_object import Object
from railhead.resources.gangs.gang import Gang, GangScheduler, PodGroup

ANNOTATION = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
SCHEDULER_NAME = "volcano"


def _build_spec(gang: Gang) -> Object:
    spec: Object = {"minMember": gang.least_pods}
    if queue := gang.annotations.get(QUEUE):
        spec["queue"] = queue
    if gang.priority_class:
        return {**spec, "priorityClassName": gang.priority_class}
    return spec


def _join(pod: Object, name: str) -> Object:
    metadata = pod["metadata"]
    return {
        **pod,
        "metadata": {**metadata, "annotations": {**metadata["annotations"], ANNOTATION: name}},
        "spec": {"schedulerName": SCHEDULER_NAME, **pod["spec"]},
    }


VOLCANO = GangScheduler((PodGroup("scheduling.volcano.sh/v1beta1", _build_spec),), _join)
