"""Kueue's Workload: one per job, by which it asks for quota, and what an admission adds to the job's pods. Pure.

The pods themselves carry no queue name: Kueue would manage them a second time. Kueue holds the quota until the Workload
says Finished, or is gone; the finalizer keeps a deleted one until the operator has seen the last pod end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from railhead.api import names
from railhead.api.queue import PodSetAdmission
from railhead.json_object import Object
from railhead.resources.base import JobRef, build_metadata
from railhead.resources.queues.kueue_topology import build_topology_requests, hold

API_VERSION = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"  # label of a TrainJob
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"  # likewise
MAX_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"  # likewise
POD_SET = "kueue.x-k8s.io/podset"  # label of a pod
POD_GATE = "kueue.x-k8s.io/admission"  # of a pod that Kueue's integration for pods manages by itself
FINALIZER = "kueue.x-k8s.io/resource-in-use"  # Kueue's name for it, so that it frees Workloads without an owner
DIGEST = f"{names.GROUP}/workload-digest"  # annotation of a Workload: of what the job asked for
# names of the pod sets
HEAD = "head"
WORKERS = "workers"
_POD_FIELDS = ("nodeSelector", "tolerations", "priorityClassName", "runtimeClassName", "resourceClaims", "resources")
_CONTAINER_FIELDS = ("name", "resources", "restartPolicy")


@dataclass(frozen=True)
class QueueRequest:
    """What a job asks of its queue.

    Attributes:
        queue: name of a LocalQueue.
        priority_class, priority: a WorkloadPriorityClass and its value; "" and 0 = none.
        most_seconds: how long the job may be admitted in all; None = without a limit.
        workers: the number of worker pods.
        least_workers: with how many of them an elastic job may be admitted; None = with all.
        head, worker: a pod of each role, as it would be created.
    """

    queue: str
    priority_class: str
    priority: int
    most_seconds: int | None
    workers: int
    least_workers: int | None
    head: Object
    worker: Object


def build_workload(job: JobRef, request: QueueRequest) -> Object:
    """Returns the Workload, as Kubernetes JSON."""
    named = build_metadata(job, names.workload_name(job.name, job.uid))
    annotations = {**named.get("annotations", {}), DIGEST: compute_digest(request)}
    metadata = {**named, "annotations": annotations, "finalizers": [FINALIZER]}
    spec = _build_spec(request)
    if request.priority_class:
        spec["priority"] = request.priority
    return {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}


def compute_digest(request: QueueRequest) -> str:
    """Returns a digest of the request. The priority's value is not in it: Kueue follows that of the class."""
    content = json.dumps(_build_spec(request), sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _build_spec(request: QueueRequest) -> Object:
    head: Object = {"name": HEAD, "count": 1, "template": _build_template(request.head)}
    workers: Object = {"name": WORKERS, "count": request.workers, "template": _build_template(request.worker)}
    for pod_set, asked in zip((head, workers), build_topology_requests(request.head, request.worker), strict=True):
        if asked:
            pod_set["topologyRequest"] = asked
    if request.least_workers is not None and request.least_workers < request.workers:
        workers["minCount"] = request.least_workers
    spec: Object = {"queueName": request.queue, "podSets": [head, workers]}
    if request.most_seconds is not None:
        spec["maximumExecutionTimeSeconds"] = request.most_seconds
    if request.priority_class:
        reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": request.priority_class}
        spec["priorityClassRef"] = reference
    return spec


def _build_template(pod: Object) -> Object:
    """Returns the part of a pod that decides what it requests, and on which nodes it may run."""
    spec = pod["spec"]
    kept = {key: spec[key] for key in _POD_FIELDS if spec.get(key)}
    affinity = spec.get("affinity")
    if isinstance(affinity, dict) and affinity.get("nodeAffinity"):
        kept["affinity"] = {"nodeAffinity": affinity["nodeAffinity"]}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            kept[kind] = _list_containers(spec[kind])
    return {"spec": {"restartPolicy": "Never", **kept}}


def _list_containers(containers: Iterable[Object]) -> list[Object]:
    return [{key: each[key] for key in _CONTAINER_FIELDS if each.get(key)} for each in containers]


def admit(pod: Object, pod_set: str, admission: PodSetAdmission, *, workload: str) -> Object:
    """Returns the pod with what the queue gave its pod set; it may share parts with the given pod."""
    metadata = pod["metadata"]
    spec = dict(pod["spec"])
    labels = {key: value for key, value in {**metadata["labels"], **admission.labels}.items() if key != QUEUE_NAME}
    annotations = {**metadata["annotations"], **admission.annotations}
    if admission.node_selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **admission.node_selector}
    if admission.tolerations:
        added = [each.model_dump(by_alias=True, exclude_defaults=True) for each in admission.tolerations]
        spec["tolerations"] = [*(spec.get("tolerations") or []), *added]
    labels[POD_SET] = pod_set
    admitted = {**pod, "metadata": {**metadata, "labels": labels, "annotations": annotations}, "spec": spec}
    if admission.topology_aware:
        return hold(admitted, workload=workload)
    return admitted
