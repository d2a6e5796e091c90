"""The coscheduling plugin of kubernetes-sigs/scheduler-plugins.

It runs in a scheduler beside the default one, whose name is the installation's: podTemplate.spec.schedulerName.
"""

from __future__ import annotations

from railhead.json_object import Object
from railhead.resources.gangs.gang import Gang, GangScheduler, PodGroup

LABEL = "scheduling.x-k8s.io/pod-group"
SCHEDULER_NAME = "scheduler-plugins-scheduler"  # of the project's Helm chart


def _build_spec(gang: Gang) -> Object:
    return {"minMember": gang.least_pods}


def _join(pod: Object, name: str) -> Object:
    metadata = pod["metadata"]
    return {
        **pod,
        "metadata": {**metadata, "labels": {**metadata["labels"], LABEL: name}},
        "spec": {"schedulerName": SCHEDULER_NAME, **pod["spec"]},
    }


COSCHEDULING = GangScheduler((PodGroup("scheduling.x-k8s.io/v1alpha1", _build_spec),), _join)
