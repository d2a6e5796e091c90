"""A kubelet that evicts pods for its node's resources: one that runs, and for minutes all new ones at admission.

pkg/kubelet/eviction/helpers.go: nodeLowMessageFmt, containerMessageFmt, nodeConditionMessageFmt; eviction_manager.go:
Admit, evictPod; the scheduler keeps away from the node once it has the taint of the pressure (up to 10 s later).
"""

from __future__ import annotations

from random import Random

from tests.model.actors.actor import Actor, Range, node_of
from tests.model.api_server import Object
from tests.model.world import World

LOW = (
    "Evicted",
    "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. Container ray was "
    "using 3145728Ki, request is 2Gi, has larger consumption of ephemeral-storage. ",
)
PRESSURE = ("Evicted", "The node had condition: [DiskPressure]. ")


class Eviction(Actor):
    """At most once between two checkpoints of a job: three evictions in a row count as the job's own fault."""

    def __init__(self, world: World, random: Random) -> None:
        self.node = ""
        self.evicted_at: dict[str, int] = {}
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.kubelets.append(self.admit)

    def admit(self, pod: Object) -> bool:
        if not self.node or node_of(pod) != self.node or pod["metadata"]["namespace"] != "default":
            return True
        self.refuse(pod, *PRESSURE)
        return False

    def act(self) -> Range:
        if self.node and not self._is_tainted():
            self.taint(self.node, "node.kubernetes.io/disk-pressure", ready="True")
            self.end_refusing()
            return 60, 600
        if self.node:
            self.leave()
            return 60, 600
        pod = self.choose_pod()
        if pod is None or not self._has_committed_since(pod):
            return 5, 60
        self.node = node_of(pod)
        self.begin_refusing()
        self.end_by_kubelet(pod, LOW)
        return 0, 10

    def _is_tainted(self) -> bool:
        node = self.world.api.objects.get(("nodes", "", self.node))
        return node is None or bool(node["spec"].get("taints"))

    def _has_committed_since(self, pod: Object) -> bool:
        """The status has a checkpoint that is newer than the job's last eviction."""
        job = self.world.job_of(pod)
        newest = ((job or {}).get("status", {}).get("checkpoint") or {}).get("index", -1)
        uid = pod["metadata"]["ownerReferences"][0]["uid"]
        if newest <= self.evicted_at.get(uid, -2):
            return False
        self.evicted_at[uid] = newest
        return True

    def leave(self) -> None:
        if self.node:
            self.heal(self.node)
        self.end_refusing()
        self.node = ""
