"""Values for tests about Kueue: the view of a Workload as Kueue leaves it in each state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.api.conditions import Condition
from railhead.api.queue import Toleration
from railhead.json_object import Object
from railhead.planning.facts.admission import build_request
from railhead.planning.queue_view import Assignment, Flavor, QueueView, WorkloadView
from railhead.resources.base import build_owner
from railhead.resources.queues.kueue import FINALIZER, compute_digest
from tests.unit.builders import UID, make_job, make_spec

QUEUE = "team-a"
SPOT = Flavor("spot", {"pool": "spot"}, (Toleration(key="spot", operator="Exists"),))
ADMISSION = {
    "queue": QUEUE,
    "clusterQueue": "all",
    "podSets": [
        {"name": "head", "count": 1, "flavors": ["spot"], "nodeSelector": {"pool": "spot"}},
        {"name": "workers", "count": 2, "flavors": ["spot"], "nodeSelector": {"pool": "spot"}},
    ],
}
OWNER = {**build_owner("railhead.dev/v1alpha1", "TrainJob", "digits", UID), "controller": True}


def condition(type_: str, status: str = "True", reason: str = "Because", message: str = "") -> Condition:
    time = "2026-01-01T11:00:00Z"
    values = {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}
    return Condition.model_validate(values)


RESERVED, ADMITTED = condition("QuotaReserved"), condition("Admitted")


def queued_spec(**changes: Any) -> Any:
    """A spec that names the queue."""
    return make_spec(**{"scheduling": {"queueName": QUEUE}, **changes})


def make_workload(*conditions: Condition, spec: Any = None, **changes: Any) -> WorkloadView:
    """The Workload of the job `digits`, for what this spec asks for."""
    job = make_job(spec=spec or queued_spec(), queue=QueueView("served"))
    workload = WorkloadView(
        "digits-0f1e2d",
        "7",
        UID,
        digest=compute_digest(build_request(job)),
        finalizers=(FINALIZER,),
        queue=QUEUE,
        cluster_queue="all",
        asked_workers=job.requested_workers,
        conditions=conditions,
    )
    return replace(workload, **changes)


def make_admitted(*conditions: Condition, count: int = 2, **changes: Any) -> WorkloadView:
    """Admitted to the flavor `spot`, also if other conditions say that this has ended."""
    assignments = (Assignment("head", ("spot",), 1), Assignment("workers", ("spot",), count))
    return make_workload(RESERVED, ADMITTED, *conditions, **{"assignments": assignments, **changes})


def served(workload: WorkloadView | None = None, **changes: Any) -> QueueView:
    return replace(QueueView("served", workload=workload, flavors={"spot": SPOT}), **changes)


def make_raw(name: str = "digits-0f1e2d", version: int = 7, **changes: Any) -> Object:
    """The Workload of the job `digits` as the API server has it."""
    metadata = {
        "namespace": "default",
        "name": name,
        "uid": "uid-workload",
        "resourceVersion": str(version),
        "labels": {"railhead.dev/job-name": "digits", "railhead.dev/job-uid": UID},
        "annotations": {"railhead.dev/workload-digest": "d1"},
        "ownerReferences": [OWNER],
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
    }
    return {
        "metadata": {**metadata, **changes.pop("metadata", {})},
        "spec": {"queueName": "team-a", "active": True},
        "status": {
            "admission": {
                "clusterQueue": "all",
                "podSetAssignments": [{"name": "workers", "flavors": {"cpu": "spot", "memory": "spot"}, "count": 2}],
            },
            "conditions": [{"type": "Admitted", "status": "True", "reason": "Admitted", "message": "m"}],
        },
        **changes,
    }
