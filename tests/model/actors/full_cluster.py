"""A cluster in which other tenants' pods hold most of the GPUs, and two jobs that together need more than the rest.

pkg/scheduler/framework/types.go: FitError.Error is the message of the condition ("0/8 nodes are available: 8
Insufficient nvidia.com/gpu."). The scheduler places pods one by one, so that each job may hold a part of the nodes.
"""

from __future__ import annotations

from random import Random

from tests.model.actors.actor import Actor, Range
from tests.model.nodes import choose_node
from tests.model.world import INERT, World, name_of

TENANTS = "tenants"  # their namespace
GPU_POD = {
    "containers": [{"name": "tenant", "command": INERT, "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
}


class FullCluster(Actor):
    """Other tenants take nodes that are free, and leave some; a second job wants the same nodes. The user of both
    jobs shortens their deadline."""

    first: Range = (0, 60)

    def __init__(self, world: World, random: Random) -> None:
        self.made: list[str] = []
        self.number = 0
        self.has_rival = False
        super().__init__(world, random)

    def act(self) -> Range:
        if not self.has_rival:
            self.has_rival = True
            deadline = self.random.choice((60, 120, 300))
            for job in self.jobs():
                self.world.change(name_of(job), partialStartDeadlineSeconds=deadline)
            scaling = {"numWorkers": self.random.choice((2, 4)), "useGPU": True}
            self.world.apply("rival", backoffLimit=0, scaling=scaling, partialStartDeadlineSeconds=deadline)
        elif self.made and self.random.random() < 0.3:
            self._leave(self.made.pop(self.random.randrange(len(self.made))))
        else:
            self._take()
        return 5, 200

    def _take(self) -> None:
        """The scheduler places a tenant's pod before those that wait."""
        node = choose_node(self.world.api, {"spec": GPU_POD})
        if not node:
            return
        self.number += 1
        name = f"tenant-{self.number}"
        body = {"metadata": {"name": name, "namespace": TENANTS}, "spec": GPU_POD}
        self.world.api.create(("pods", TENANTS, name), body)
        self.world.api.bind(name, node, namespace=TENANTS)
        self.made.append(name)

    def _leave(self, name: str) -> None:
        self.world.api.remove(("pods", TENANTS, name))

    def leave(self) -> None:
        """All tenants finish."""
        for name in self.made:
            self._leave(name)
        self.made = []
