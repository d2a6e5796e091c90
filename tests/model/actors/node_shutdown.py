"""A machine that is shut down: a reboot, after which its node is back, or a spot machine that the cloud takes away.

pkg/kubelet/nodeshutdown/nodeshutdown_manager.go: the kubelet reports the node as not ready, refuses new pods, and ends
those that run with `nodeShutdownReason` and `nodeShutdownMessage`. pkg/controller/nodelifecycle taints the node;
cloud-provider's pkg controllers/nodelifecycle deletes it once the machine is gone.
"""

from __future__ import annotations

from random import Random

from tests.model.actors.actor import Actor, Range, node_of
from tests.model.api_server import Object
from tests.model.nodes import make_node
from tests.model.world import World

SHUTDOWN = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
NOT_ADMITTED = ("NodeShutdown", "Pod was rejected as the node is shutting down.")
NOT_READY = "node.kubernetes.io/not-ready"


class NodeShutdown(Actor):
    """One node after the other; the spot machine's successor has another name."""

    is_spot = False

    def __init__(self, world: World, random: Random) -> None:
        self.node = ""
        self.is_off = False
        self.number = 0
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.kubelets.append(self.admit)

    def admit(self, pod: Object) -> bool:
        if not self.node or node_of(pod) != self.node or pod["metadata"]["namespace"] != "default":
            return True
        self.refuse(pod, *NOT_ADMITTED)
        return False

    def act(self) -> Range:
        if not self.node:
            return self._shut_down()
        if not self.is_off:
            return self._switch_off()
        self.leave()
        return 30, 600

    def _shut_down(self) -> Range:
        self.node = self.choose_node()
        if not self.node:
            return 5, 60
        self.begin_refusing()
        for pod in self.pods_on(self.node):
            if pod["status"]["phase"] == "Pending":
                self.refuse(pod, *NOT_ADMITTED)
            else:
                self.end_by_kubelet(pod, SHUTDOWN, has_time=self.random.random() < 0.5)
        return 0, 20  # until the node's taint keeps new pods away

    def _switch_off(self) -> Range:
        self.is_off = True
        self.end_refusing()
        if self.is_spot:
            self.world.api.delete(("nodes", "", self.node), {})
        else:
            self.taint(self.node, NOT_READY, effects=("NoSchedule", "NoExecute"))
        return 60, 900

    def leave(self) -> None:
        """It has started again, or the cloud gives another machine."""
        if self.node and self.is_spot and self.is_off:
            self.collect(self.node, has_condition=True)
            self.number += 1
            self.world.api.create(("nodes", "", ""), make_node(f"spot-{self.number}"))
        elif self.node:
            self.heal(self.node)
        self.end_refusing()
        self.node, self.is_off = "", False


class SpotReclaim(NodeShutdown):
    """The same with spot machines."""

    is_spot = True
