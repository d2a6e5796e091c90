"""A controller that puts its finalizer on the job's pods and on the TrainJob, as backup tools and queues do, and takes
minutes to remove it after a deletion.

staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go: Delete, deletionFinalizersForGarbageCollection.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Object, Place
from tests.model.world import NAMESPACE, World

FINALIZER = "example.com/keep"


class ForeignFinalizer(Actor):
    """On pods: the operator, a drain or a garbage collection deletes them."""

    first: Range = (5, 5)

    def __init__(self, world: World, random: Random) -> None:
        self.patience = timedelta(seconds=random.choice((5, 60, 600)))
        self.deleted_at: dict[Place, datetime] = {}
        self.is_gone = False
        super().__init__(world, random)

    def act(self) -> Range:
        for place, obj in list(self.world.api.objects.items()):
            if place[0] == "pods" and place[1] == NAMESPACE:
                self.keep(place, obj)
        return 5, 15

    def keep(self, place: Place, obj: Object) -> None:
        """Adds the finalizer, or removes it a while after the deletion."""
        metadata = obj["metadata"]
        known = [each for each in metadata.get("finalizers") or [] if each != FINALIZER]
        if "deletionTimestamp" not in metadata and not self.is_gone:
            if FINALIZER not in (metadata.get("finalizers") or []):
                self.world.api.patch(place, {"metadata": {"finalizers": [*known, FINALIZER]}})
            return
        since = self.deleted_at.setdefault(place, self.world.now)
        if (self.is_gone or self.world.now >= since + self.patience) and FINALIZER in (
            metadata.get("finalizers") or []
        ):
            self.world.api.patch(place, {"metadata": {"finalizers": known}})

    def leave(self) -> None:
        self.is_gone = True
        self.act()


class FinalizerOnJob(ForeignFinalizer):
    """The user deletes the TrainJob, in either order, and applies it again when it is gone."""

    def __init__(self, world: World, random: Random) -> None:
        super().__init__(world, random)
        self.delete_at = world.now + timedelta(seconds=random.uniform(30, 900))
        self.spec: dict[str, Any] = {}

    def act(self) -> Range:
        place = ("trainjobs", NAMESPACE, "digits")
        job = self.world.api.objects.get(place)
        if job is not None:
            self.keep(place, job)
        # With the finalizer, a job that another actor has deleted is gone.
        if job is not None and place in self.world.api.objects and self.world.now >= self.delete_at and not self.spec:
            self.spec = job["spec"]
            policy = self.random.choice(("Background", "Foreground"))
            self.world.api.delete(place, {"propagationPolicy": policy})
        if job is None and self.spec:
            self.world.forget_run("digits")
            self.world.api.create(place, {"metadata": {"name": "digits"}, "spec": self.spec})
            self.delete_at = datetime.max.replace(tzinfo=self.world.now.tzinfo)
        return 5, 15

    def leave(self) -> None:
        """The job may still be deleted; then it is not applied again."""
        self.is_gone = True
        place = ("trainjobs", NAMESPACE, "digits")
        if place in self.world.api.objects:
            self.keep(place, self.world.api.objects[place])
