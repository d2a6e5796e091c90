"""A device plugin that restarts: for a while its node has no healthy GPU, and pods that run keep theirs.

pkg/kubelet/cm/devicemanager/manager.go: devicesToAllocate; pkg/kubelet/cm/admission/errors.go:
GetPodAdmitResult (UnexpectedAdmissionError). After a reboot the kubelet admits its pods again before the plugin has
registered, and refuses them too.
"""

from __future__ import annotations

from random import Random

from tests.model.actors.actor import Actor, Range, node_of
from tests.model.api_server import Object
from tests.model.nodes import needs_gpus
from tests.model.world import NAMESPACE, World

NO_DEVICES = (
    "UnexpectedAdmissionError",
    "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is "
    "unexpected",
)


class DevicePlugin(Actor):
    """Of one node after the other."""

    def __init__(self, world: World, random: Random) -> None:
        self.node = ""
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.kubelets.append(self.admit)

    def admit(self, pod: Object) -> bool:
        if node_of(pod) != self.node or pod["metadata"]["namespace"] != NAMESPACE or not needs_gpus(pod):
            return True
        self.refuse(pod, *NO_DEVICES)
        return False

    def act(self) -> Range:
        if self.node:
            self.leave()
            return 60, 600
        self.node = self.choose_node()
        if not self.node:
            return 5, 60
        self.begin_refusing()
        if self.random.random() < 0.5:
            for pod in filter(needs_gpus, self.pods_on(self.node)):
                self.refuse(pod, *NO_DEVICES)
        return 5, 90

    def leave(self) -> None:
        self.end_refusing()
        self.node = ""
