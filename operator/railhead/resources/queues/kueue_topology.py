"""What a job asks of Kueue's Topology Aware Scheduling, and pods that wait until Kueue has chosen their nodes. Pure."""

from __future__ import annotations

from railhead.json_object import Object

GATE = "kueue.x-k8s.io/topology"  # of a pod, until Kueue has assigned a node to it
WORKLOAD = "kueue.x-k8s.io/workload"  # annotation of a pod: the name of its Workload
# The others are annotations of pod templates.
GROUP = "kueue.x-k8s.io/podset-group-name"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
UNCONSTRAINED_TOPOLOGY = "kueue.x-k8s.io/podset-unconstrained-topology"
PLACEMENTS = {
    "required": REQUIRED_TOPOLOGY,
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
    "unconstrained": UNCONSTRAINED_TOPOLOGY,
}
SLICES = {
    "podSetSliceRequiredTopology": "kueue.x-k8s.io/podset-slice-required-topology",
    "podSetSliceSize": "kueue.x-k8s.io/podset-slice-size",
}


def build_topology_requests(*pods: Object) -> list[Object]:
    """Returns the topologyRequest of the pod set of each pod, by the pods' annotations; empty without any.

    As Kueue does for the templates of a Job (pkg/controller/jobframework/tas.go). The API server refuses a value that
    is not valid, and the job shows its words. Kueue puts a group of pod sets into one domain: those with the same
    placement are a group, unless they have slices, which Kueue allows in no group.
    """
    requests = [_read_request(pod["metadata"]["annotations"]) for pod in pods]
    first = requests[0]
    are_same = all(each == first for each in requests)
    has_placement = first.keys() & {"required", "preferred"}
    has_slices = first.keys() & SLICES
    if not are_same or not has_placement or has_slices:
        return requests
    return [{**first, "podSetGroupName": pod["metadata"]["annotations"].get(GROUP, "attempt")} for pod in pods]


def _read_request(annotations: Object) -> Object:
    found = {field: annotations[key] for field, key in {**PLACEMENTS, **SLICES}.items() if key in annotations}
    if found.get("unconstrained") in ("true", "false"):
        found["unconstrained"] = found["unconstrained"] == "true"
    if str(found.get("podSetSliceSize")).isdecimal():
        found["podSetSliceSize"] = int(found["podSetSliceSize"])
    return found


def hold(pod: Object, *, workload: str) -> Object:
    """Returns the pod with a gate, and with the annotations by which Kueue finds it.

    Kueue adds the labels of a node to the pod's node selector and removes the gate (pkg/controller/tas/
    topology_ungater.go).
    """
    metadata = pod["metadata"]
    spec = pod["spec"]
    annotations = {**metadata["annotations"], WORKLOAD: workload}
    if not any(key in annotations for key in PLACEMENTS.values()):
        annotations[UNCONSTRAINED_TOPOLOGY] = "true"
    gates = [*(spec.get("schedulingGates") or []), {"name": GATE}]
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, "schedulingGates": gates}}
