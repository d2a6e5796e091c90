"""An autoscaler that changes desiredWorkers of an elastic job again and again, through the subresource scale.

pkg/controller/podautoscaler/horizontal.go: reconcileAutoscaler; ScaleREST.Update in staging/src/k8s.io/
apiextensions-apiserver/pkg/registry/customresource/etcd.go sets the path of `specReplicasPath`.
"""

from __future__ import annotations

from tests.model.actors.actor import Actor, Range


class Flapper(Actor):
    """Several times within a grace period, or minutes apart."""

    def act(self) -> Range:
        for job in self.jobs():
            scaling = job["spec"]["scaling"]
            if scaling.get("maxWorkers"):
                wanted = self.random.randint(scaling["minWorkers"], scaling["maxWorkers"])
                self.world.change(job["metadata"]["name"], scaling={"desiredWorkers": wanted})
        ranges: tuple[Range, ...] = ((1, 10), (1, 10), (20, 300))
        return self.random.choice(ranges)
