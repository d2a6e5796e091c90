"""Kubernetes' own gang scheduling (KEP-4671): alpha in 1.36, beta in 1.37, off by default in both.

The feature gates GenericWorkload and GangScheduling turn it on. Preemption of a gang as a whole has a gate of its own,
WorkloadAwarePreemption; the API server drops disruptionMode and priorityClassName without it. So does the search for a
topology domain with room for all pods, TopologyAwareWorkloadScheduling, with schedulingConstraints: without it the
scheduler commits itself to the domain of the pod that it places first.
"""

from __future__ import annotations

from railhead.json_object import Object
from railhead.resources.gangs.gang import Gang, GangScheduler, PodGroup


def _build_spec(gang: Gang, disruption_mode: object) -> Object:
    spec: Object = {
        "schedulingPolicy": {"gang": {"minCount": gang.least_pods}},
        "disruptionMode": disruption_mode,  # a group that has lost a pod makes no step
    }
    if gang.priority_class:
        spec["priorityClassName"] = gang.priority_class
    if gang.domain:
        spec["schedulingConstraints"] = {"topology": [{"key": gang.domain}]}
    return spec


def _join(pod: Object, name: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": name}}}


IN_TREE = GangScheduler(
    (
        PodGroup("scheduling.k8s.io/v1beta1", lambda gang: _build_spec(gang, {"all": {}})),
        PodGroup("scheduling.k8s.io/v1alpha2", lambda gang: _build_spec(gang, "PodGroup")),
    ),
    _join,
)
