"""A mutating webhook that adds a sidecar, resources, labels and tolerations to each pod, as service meshes and cost
tools do. The sidecar does not end when the ray container has ended.

callAttrMutatingHook in staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go applies it.
"""

from __future__ import annotations

import copy
from random import Random

from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Object
from tests.model.world import NAMESPACE, World

SIDECAR = {
    "name": "proxy",
    "image": "example.com/proxy:1",
    "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2", "memory": "1Gi"}},
}


class MutatingWebhook(Actor):
    """It is installed and removed while jobs run."""

    first: Range = (0, 300)

    def __init__(self, world: World, random: Random) -> None:
        self.is_on = random.random() < 0.5
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.mutations.append(self.mutate)

    def mutate(self, body: Object) -> Object:
        if not self.is_on or body["metadata"].get("namespace", NAMESPACE) != NAMESPACE:
            return body
        body = copy.deepcopy(body)
        metadata, spec = body["metadata"], body["spec"]
        metadata["labels"] = {**(metadata.get("labels") or {}), "example.com/injected": "true"}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), "example.com/status": "injected"}
        spec["containers"] = [*spec["containers"], SIDECAR]
        spec["tolerations"] = [*(spec.get("tolerations") or []), {"key": "example.com/mesh", "operator": "Exists"}]
        spec["schedulerName"] = "default-scheduler"
        return body

    def act(self) -> Range:
        self.is_on = not self.is_on
        return 60, 900

    def leave(self) -> None:
        self.is_on = False
