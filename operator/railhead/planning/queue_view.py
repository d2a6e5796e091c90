"""What one pass sees of the job's queue: Kueue's Workload of the job, and the objects that it refers to. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from railhead.api.conditions import Condition, find_condition
from railhead.api.queue import Toleration
from railhead.resources.queues.kueue import FINALIZER

ADMITTED = "Admitted"
EVICTED = "Evicted"
FINISHED = "Finished"
PODS_READY = "PodsReady"
QUOTA_RESERVED = "QuotaReserved"
REQUEUED = "Requeued"
NODE_FAILURES = "NodeFailures"  # reason of Evicted, by Kueue, and by this operator if the job avoids a node
FAILED_TO_START = "FailedToStart"  # Kueue's reason of Finished for a job that cannot have what was admitted
QueueState = Literal["off", "unknown", "missing", "partial", "served"]


@dataclass(frozen=True)
class Flavor:
    """A ResourceFlavor.

    Attributes:
        node_labels: of its nodes.
        tolerations: that pods need there.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """What a Workload's admission gives one pod set.

    Attributes:
        flavors: names of ResourceFlavors, in order and once each.
        count: of pods; None = as many as the pod set asks for.
        has_topology: Kueue assigns a node or another domain to each pod, by Topology Aware Scheduling.
        nodes: how many of the pods it assigned to which node; empty if its lowest domains are larger than a node.
    """

    pod_set: str
    flavors: tuple[str, ...] = ()
    count: int | None = None
    has_topology: bool = False
    nodes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PodSetUpdate:
    """What an admission check adds to the pods of one pod set.

    Attributes:
        check: name of the AdmissionCheck.
    """

    check: str
    pod_set: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class WorkloadView:
    """The job's Workload.

    Attributes:
        version: its resourceVersion.
        is_active: spec.active; an administrator sets it to false to hold the job.
        digest: of what the job asked for when it was created.
        past_seconds: how long it was admitted before, for its maximum execution time.
        asked_workers: count of its pod set of workers.
        reclaimed_workers: how many of them need no quota any more, by status.reclaimablePods.
        assignments: of status.admission; empty without one.
        updates: of status.admissionChecks.
    """

    name: str
    version: str
    job_uid: str
    is_deleting: bool = False
    is_active: bool = True
    digest: str = ""
    finalizers: tuple[str, ...] = ()
    queue: str = ""
    cluster_queue: str = ""
    past_seconds: int = 0
    asked_workers: int = 0
    reclaimed_workers: int = 0
    assignments: tuple[Assignment, ...] = ()
    updates: tuple[PodSetUpdate, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def find(self, type_: str) -> Condition | None:
        return find_condition(self.conditions, type_)

    def has(self, type_: str) -> bool:
        """Returns whether the condition is True."""
        found = self.find(type_)
        return found is not None and found.is_true

    @property
    def is_admitted(self) -> bool:
        """Returns whether its pods may run now."""
        is_over = self.is_deleting or self.has(FINISHED) or self.has(EVICTED)
        return self.is_active and not is_over and self.has(QUOTA_RESERVED) and self.has(ADMITTED)

    @property
    def could_not_start(self) -> bool:
        """Returns whether this operator ended it because the pods cannot have what the admission gave them."""
        finished = self.find(FINISHED)
        return finished is not None and finished.is_true and finished.reason == FAILED_TO_START

    @property
    def has_finalizer(self) -> bool:
        return FINALIZER in self.finalizers


@dataclass(frozen=True)
class QueueView:
    """The job's queue.

    Attributes:
        state: of Kueue's API for this operator: not used, not answered yet, absent or refused, the same but for
            Workloads, or watched.
        queue_label, priority_label, seconds_label: values of the TrainJob's labels.
        workload: None = there is none.
        flavors: the ResourceFlavors that the Workload's admission names, as far as they exist.
        priority: value of the WorkloadPriorityClass that the label names; None = there is none.
    """

    state: QueueState = "off"
    queue_label: str = ""
    priority_label: str = ""
    seconds_label: str = ""
    workload: WorkloadView | None = None
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    priority: int | None = None

    @property
    def are_workloads_watched(self) -> bool:
        """Returns whether the job's Workload is known as it is now. If Kueue's definitions are deleted, that of
        Workloads stays until the operator lets each of them go."""
        return self.state in ("served", "partial")
