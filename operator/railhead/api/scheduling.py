"""spec.scheduling: how the operator influences where and when the job's pods run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railhead.api.cel import names_no_other_priority
from railhead.api.model import Model, Name, optional
from railhead.api.topology import Topology

GangSchedulerName = Literal["None", "Auto", "PodGroup", "Coscheduling", "Volcano"]
ChosenGang = Literal["None", "PodGroup"]  # by Auto


class Scheduling(Model):
    """How the operator influences where and when the job's pods run."""

    node_avoidance: Literal["Auto", "None"] = Field(
        default="Auto",
        description="Auto: a node that refuses or does not start a pod of this job, or whose hardware fails under it, "
        "gets no new one for 1 h, doubled each time up to 24 h "
        "(status.avoidedNodes). None: the job avoids no node, and forgets those that it avoided. "
        "May be changed at any time.",
    )
    gang_scheduler: GangSchedulerName = Field(
        default="None",
        description="Scheduler that gives nodes to all pods of an attempt at once, or to none: PodGroup is Kubernetes' "
        "own (scheduling.k8s.io), Coscheduling that of scheduler-plugins. Without the scheduler in the cluster the job "
        "waits with reason SchedulerMissing. None: each pod is scheduled by itself. Auto: each attempt begins with "
        "PodGroup if the API server serves it, else with None (status.gangScheduler).",
    )
    priority_class_name: Name | None = optional(
        "PriorityClass of the head pod and the worker pods, and of their gang. A podTemplate may only name the same."
    )
    topology: Topology | None = optional(
        "Keeps the worker pods of an attempt within one domain of the cluster, such as a rack."
    )
    queue_name: Name | None = optional(
        "Kueue's LocalQueue, in the job's namespace, that admits the job: it has no pods until then. "
        "The label kueue.x-k8s.io/queue-name of the TrainJob says the same."
    )


# For the whole spec.
PRIORITY_RULE = (
    ".scheduling.priorityClassName",
    "!has(self.scheduling) || !has(self.scheduling.priorityClassName) || "
    f"({names_no_other_priority('self.podTemplate')} && {names_no_other_priority('self.head.podTemplate')} && "
    f"{names_no_other_priority('self.worker.podTemplate')})",
    "podTemplate, head.podTemplate or worker.podTemplate names another priorityClassName; remove it there",
)
