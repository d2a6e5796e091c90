"""Kueue's integration for pods in a namespace in which the LocalQueue `default` comes and goes.

pkg/controller/jobs/pod/pod_webhook.go: Default takes each pod that is created meanwhile, since Kueue does not know
TrainJobs. Its reconciler admits a pod in its time. It never admits the pods of a job that has a Workload of its own:
these carry the label podset already, with another value than the one that it adds (pkg/podset/podset.go: Merge), as was
seen with Kueue 0.19.2. Kueue removes its finalizer from deleted pods, while it runs.
"""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from random import Random

from tests.model.actors.actor import Actor, Range
from tests.model.api_server import ENDED, Object
from tests.model.world import NAMESPACE, World, is_inert, place_of

GATE = "kueue.x-k8s.io/admission"
QUEUE = "kueue.x-k8s.io/queue-name"
MANAGED = "kueue.x-k8s.io/managed"  # label and finalizer
POD_SET = "kueue.x-k8s.io/podset"


class DefaultQueue(Actor):
    """An administrator creates and deletes that LocalQueue, and Kueue is slow, or away for minutes."""

    first: Range = (0, 60)

    def __init__(self, world: World, random: Random) -> None:
        self.exists = random.random() < 0.5
        self.patience = timedelta(seconds=random.choice((5, 60, 600)))
        self.switch_at = world.now + timedelta(seconds=random.uniform(60, 600))
        self.seen_at: dict[str, datetime] = {}
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.mutations.append(self.mutate)

    def mutate(self, body: Object) -> Object:
        is_other = body["metadata"].get("namespace", NAMESPACE) != NAMESPACE or is_inert(body)
        if not self.exists or is_other or QUEUE in (body["metadata"].get("labels") or {}):
            return body
        return take(body)

    def act(self) -> Range:
        if self.switch_at <= self.world.now:
            self.exists = not self.exists
            self.switch_at = self.world.now + timedelta(seconds=self.random.uniform(60, 600))
        for pod in self._list_taken():
            since = self.seen_at.setdefault(pod["metadata"]["uid"], self.world.now)
            if self.world.now >= since + self.patience:
                self._reconcile(pod)
        return 5, 60

    def leave(self) -> None:
        """The administrator deletes the LocalQueue, and those pods that Kueue never admits, and removes Kueue with its
        finalizers: nobody would remove them later."""
        self.exists = False
        for pod in self._list_taken():
            if POD_SET in pod["metadata"]["labels"] and _is_gated(pod):
                self.world.api.delete(place_of(pod), {})
        for pod in self._list_taken():
            self._reconcile(pod)
        for pod in self._list_taken():
            finalize(self.world, pod)

    def _list_taken(self) -> list[Object]:
        pods = [pod for pod in self.world.pods() if MANAGED in (pod["metadata"].get("labels") or {})]
        return [pod for pod in pods if _is_gated(pod) or MANAGED in (pod["metadata"].get("finalizers") or [])]

    def _reconcile(self, pod: Object) -> None:
        metadata = pod["metadata"]
        is_own = POD_SET in metadata["labels"]
        if "deletionTimestamp" not in metadata and _is_gated(pod) and not is_own:
            self.seen_at.pop(metadata["uid"], None)
            left = [each for each in pod["spec"]["schedulingGates"] if each["name"] != GATE]
            self.world.api.patch(place_of(pod), {"spec": {"schedulingGates": left}})
        elif "deletionTimestamp" in metadata or is_own or pod["status"].get("phase") in ENDED:
            finalize(self.world, pod)


def take(body: Object) -> Object:
    """Returns the pod as Kueue's webhook changes it."""
    body = copy.deepcopy(body)
    metadata, spec = body["metadata"], body["spec"]
    metadata["labels"] = {**(metadata.get("labels") or {}), QUEUE: "default", MANAGED: "true"}
    metadata["finalizers"] = [*(metadata.get("finalizers") or []), MANAGED]
    spec["schedulingGates"] = [*(spec.get("schedulingGates") or []), {"name": GATE}]
    return body


def finalize(world: World, pod: Object) -> None:
    left = [each for each in pod["metadata"].get("finalizers") or [] if each != MANAGED]
    world.api.patch(place_of(pod), {"metadata": {"finalizers": left}})


def _is_gated(pod: Object) -> bool:
    return any(each["name"] == GATE for each in pod["spec"].get("schedulingGates") or [])
