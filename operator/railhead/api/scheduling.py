"""spec.scheduling: how the operator influences where and when the job's pods run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from railhead.api.base import Model, planned

GangSchedulerName = Literal["None", "PodGroup", "Coscheduling", "Volcano"]


class Scheduling(Model):
    """How the operator influences where and when the job's pods run."""

    node_avoidance: Literal["Auto", "None"] = Field(
        default="Auto",
        description="Auto: a node that refuses a pod of this job gets no new one for 1 h, doubled each time up to 24 h "
        "(status.avoidedNodes). None: the job avoids no node, and forgets those that it avoided. "
        "May be changed at any time.",
    )
    gang_scheduler: GangSchedulerName = Field(
        default="None",
        description="Scheduler that gives nodes to all pods of an attempt at once, or to none: PodGroup is Kubernetes' "
        "own (scheduling.k8s.io), Coscheduling that of scheduler-plugins. Without the scheduler in the cluster the job "
        "waits with reason SchedulerMissing. None: each pod is scheduled by itself.",
    )
    queue: Any | None = planned("Queue that admits the job.")
