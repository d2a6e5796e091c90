"""All actors by name, and for each the finding that has to be fixed before random schedules contain it."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.actors.actor import Actor
from tests.model.actors.away_operator import AwayOperator
from tests.model.actors.critical_pod import CriticalPod
from tests.model.actors.cut_off_head import CutOffHead, DeafHead
from tests.model.actors.default_queue import DefaultQueue
from tests.model.actors.denying_policy import DenyingPolicy
from tests.model.actors.device_plugin import DevicePlugin
from tests.model.actors.eviction import Eviction
from tests.model.actors.flapper import Flapper
from tests.model.actors.foreign_finalizer import FinalizerOnJob, ForeignFinalizer
from tests.model.actors.full_cluster import FullCluster
from tests.model.actors.limit_range import LimitRange
from tests.model.actors.lost_node import DrainedNode, NodeDeleted, NodeDeletedWithoutPodGC, OutOfServiceTaint
from tests.model.actors.mutating_webhook import MutatingWebhook
from tests.model.actors.namespace_deletion import NamespaceDeletion
from tests.model.actors.node_shutdown import NodeShutdown, SpotReclaim
from tests.model.actors.queue import Queue
from tests.model.actors.refusing_kubelet import RefusingKubelet
from tests.model.actors.restore import Restore
from tests.model.actors.shared_quota import SharedQuota
from tests.model.actors.sick_node import DeadGPU, KillingNode, ReadinessGate, RebootingNode, UnstartingNode
from tests.model.actors.stray_pods import StrayPods


class Entry(NamedTuple):
    """`waits_for`: a finding that is not fixed yet, or an empty string; `has_own_schedules`: a test names it."""

    actor: type[Actor]
    waits_for: str = ""
    has_own_schedules: bool = False


CATALOGUE: dict[str, Entry] = {
    "a refusing kubelet": Entry(RefusingKubelet),
    "a node that is shut down": Entry(NodeShutdown),
    "a spot machine that is taken away": Entry(SpotReclaim),
    "an eviction": Entry(Eviction),
    "stray pods": Entry(StrayPods),
    "a denying policy": Entry(DenyingPolicy),
    "a critical pod": Entry(CriticalPod),
    "a device plugin that restarts": Entry(DevicePlugin),
    "a node that is deleted": Entry(NodeDeleted),
    "a node that is deleted without PodGC": Entry(NodeDeletedWithoutPodGC),
    "a node that is out of service": Entry(OutOfServiceTaint),
    "a node that is drained and switched off": Entry(DrainedNode),
    "a LimitRange": Entry(LimitRange),
    "a quota that jobs share": Entry(SharedQuota),
    "a full cluster": Entry(FullCluster),
    "a flapper of desiredWorkers": Entry(Flapper),
    "a namespace that is deleted": Entry(NamespaceDeletion),
    "a head that is cut off": Entry(CutOffHead),
    "a head that new connections do not reach": Entry(DeafHead),
    "a foreign finalizer on pods": Entry(ForeignFinalizer),
    "a foreign finalizer on the job": Entry(FinalizerOnJob),
    "a mutating webhook": Entry(MutatingWebhook),
    "a queue": Entry(Queue, has_own_schedules=True),
    "a LocalQueue named default": Entry(DefaultQueue),
    "a node that starts no containers": Entry(UnstartingNode),
    "a node with a dead GPU": Entry(DeadGPU),
    "a node that reboots": Entry(RebootingNode),
    "a node that runs out of memory": Entry(KillingNode),
    "a readiness gate": Entry(ReadinessGate),
    "a restore from a backup": Entry(Restore),
    "an operator that is away": Entry(AwayOperator),
}
ENABLED = frozenset(name for name, entry in CATALOGUE.items() if not entry.waits_for and not entry.has_own_schedules)
