"""A node whose kubelet refuses pods: each at its admission, and one that runs when the kubelet has restarted.

The scheduler sees that the node has room, and chooses it again.
"""

from __future__ import annotations

from random import Random

from tests.model.actors.actor import Actor, Range, node_of
from tests.model.api_server import Object
from tests.model.world import World

# pkg/kubelet/lifecycle/predicate.go: Admit, InsufficientResourceError.Error
# pkg/kubelet/cm/devicemanager/manager.go: devicesToAllocate, Allocate
# pkg/kubelet/nodeshutdown/nodeshutdown_manager.go: nodeShutdownNotAdmittedReason, nodeShutdownNotAdmittedMessage
# pkg/kubelet/eviction/helpers.go: nodeConditionMessageFmt
REFUSALS = (
    (
        "UnexpectedAdmissionError",
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 8, Available: "
        "7, which is unexpected",
    ),
    (
        "UnexpectedAdmissionError",
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is "
        "unexpected",
    ),
    ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 4000, used: 6000, capacity: 8000"),
    ("OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 0, capacity: 7"),
    ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
    ("Evicted", "The node had condition: [DiskPressure]. "),
)


class RefusingKubelet(Actor):
    """Of one node after the other, for minutes each."""

    def __init__(self, world: World, random: Random) -> None:
        self.node = ""
        self.refusal = REFUSALS[0]
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.kubelets.append(self.admit)

    def admit(self, pod: Object) -> bool:
        if node_of(pod) != self.node or pod["metadata"]["namespace"] != "default":
            return True
        self.refuse(pod, *self.refusal)
        return False

    def act(self) -> Range:
        if self.node:
            self.leave()
            return 5, 600
        self.node, self.refusal = self.choose_node(), self.random.choice(REFUSALS)
        if not self.node:
            return 5, 60
        self.begin_refusing()
        for pod in self.pods_on(self.node):
            self.refuse(pod, *self.refusal)  # the kubelet has restarted, and admits all its pods again
        return 30, 1200

    def leave(self) -> None:
        self.end_refusing()
        self.node = ""
