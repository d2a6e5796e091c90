"""A machine that loses its power: its kubelet is silent, and what follows depends on the cluster.

pkg/controller/nodelifecycle/node_lifecycle_controller.go: after 40 s (nodeMonitorGracePeriod) the node's Ready is
Unknown, it has the taint unreachable, and its pods are marked not ready. The taint manager deletes a pod when its
toleration ends, and the pod stays, since no kubelet ends it. Then one of these:

- `NodeDeleted`: a cloud or an administrator deletes the Node, and PodGC deletes its pods (gcOrphaned).
- `NodeDeletedWithoutPodGC`: the same where PodGC is off (`--terminated-pod-gc-threshold` and its controller): someone
  deletes the pods by force, without a trace.
- `OutOfServiceTaint`: an administrator taints the Node; the taint manager deletes the rest, and PodGC all of them
  (gcTerminating).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from railhead.api import names
from tests.model.actors.actor import Actor, Range, node_of
from tests.model.api_server import Object
from tests.model.nodes import make_node
from tests.model.world import World, name_of, role_of

UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
SILENT = timedelta(seconds=20)  # until a driver misses a worker pod
MARKED = timedelta(seconds=40)
TOLERATED = {names.HEAD: timedelta(seconds=100), names.WORKER: timedelta(seconds=340)}  # the first 40 s included


class NodeDeleted(Actor):
    """One node after the other. It comes back, or another takes its place."""

    def __init__(self, world: World, random: Random) -> None:
        self.node = ""
        self.number = 0
        self.since = self.end = datetime.min
        super().__init__(world, random)

    def act(self) -> Range:
        if not self.node:
            return self._lose()
        age = self.world.now - self.since
        if self.world.now >= self.end:
            self.leave()
            return 60, 600
        if age >= SILENT:
            self.world.unreachable |= {name_of(pod) for pod in self._lost() if role_of(pod) == names.WORKER}
        if age >= MARKED:
            self.taint(self.node, UNREACHABLE, effects=("NoSchedule", "NoExecute"), ready="Unknown")
        for pod in self._lost():
            if (
                age >= TOLERATED.get(role_of(pod), TOLERATED[names.WORKER])
                and "deletionTimestamp" not in pod["metadata"]
            ):
                self.evict_by_taint(pod)
        return 10, 10

    def _lose(self) -> Range:
        self.node = self.choose_node()
        if not self.node:
            return 5, 60
        self.since = self.world.now
        self.end = self.world.now + timedelta(seconds=self.random.choice((60, 150, 400, 900)))
        self.switch_off(self.node)
        return 10, 10

    def _lost(self) -> list[Object]:
        return [p for p in self.world.pods() if name_of(p) in self.world.silent and node_of(p) == self.node]

    def leave(self) -> None:
        if self.node:
            self.world.api.delete(("nodes", "", self.node), {})
            self.remove_pods(self.node)
            self.number += 1
            self.world.api.create(("nodes", "", ""), make_node(f"{self.node.partition('.')[0]}.{self.number}"))
        self.node = ""

    def remove_pods(self, node: str) -> None:
        self.collect(node, has_condition=True)


class NodeDeletedWithoutPodGC(NodeDeleted):
    """Someone deletes its pods by force."""

    def remove_pods(self, node: str) -> None:
        for pod in self.world.pods():
            if node_of(pod) == node and pod["metadata"]["namespace"] == "default":
                self.world.remove_pod(name_of(pod))


class OutOfServiceTaint(NodeDeleted):
    """An administrator taints it, and removes the taint when the machine is back."""

    def leave(self) -> None:
        if self.node:
            self.taint(self.node, OUT_OF_SERVICE, effects=("NoExecute",), ready="Unknown")
            for pod in self._lost():
                if "deletionTimestamp" not in pod["metadata"]:
                    self.evict_by_taint(pod)
            self.collect(self.node, has_condition=False)
            self.heal(self.node)
        self.node = ""


class DrainedNode(Actor):
    """A node that is drained, as before an upgrade, and switched off before its pods have ended.

    pkg/registry/core/pod/storage/eviction.go: addConditionAndDeletePod; kubectl waits no longer than its --timeout.
    """

    def __init__(self, world: World, random: Random) -> None:
        self.node = ""
        self.is_off = False
        super().__init__(world, random)

    def act(self) -> Range:
        if not self.node:
            return self._drain()
        if not self.is_off:
            self.is_off = True
            self.switch_off(self.node)
            self.taint(self.node, UNREACHABLE, effects=("NoSchedule", "NoExecute"), ready="Unknown")
            return 300, 900
        self.leave()
        return 60, 600

    def _drain(self) -> Range:
        self.node = self.choose_node()
        if not self.node:
            return 5, 60
        self.taint(self.node, "node.kubernetes.io/unschedulable", ready="True")
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        condition["message"] = "Eviction API: evicting"
        for pod in self.pods_on(self.node):
            self.change_status(pod, conditions=[condition])
            self.world.evict_pod(name_of(pod))
        return 0, 120

    def leave(self) -> None:
        if self.node:
            self.world.api.delete(("nodes", "", self.node), {})
            self.collect(self.node, has_condition=True)
            self.world.api.create(("nodes", "", ""), make_node(self.node))
        self.node, self.is_off = "", False
