"""What all actors have in common: a time at which each acts next, and the pods that it may choose from."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

from railhead.api import names
from tests.model.api_server import ENDED, Object
from tests.model.world import NAMESPACE, World, is_inert, name_of, place_of, role_of

Range = tuple[float, float]


class Actor:
    """One troublemaker. A schedule calls `run` whenever `next_at` has come, and at the end `leave`.

    Attributes:
        next_at: None = never again.
        denies_requests: of the operator, so that a job may wait for as long as it does.
        denies_releases: now: a release of pods is a write of the status, and deletes.
        is_operator_away: while it is, nothing of the operator runs.
        refusals: the times in which a node refuses pods, as [begin, end].
    """

    first: Range = (5, 600)  # seconds until its first act
    denies_requests = False
    denies_releases = False
    is_operator_away = False

    def __init__(self, world: World, random: Random) -> None:
        self.world, self.random = world, random
        self.next_at: datetime | None = None
        self.refusals: list[list[datetime]] = []
        self._wait(*self.first)
        self.begin()

    def begin(self) -> None:
        """Registers what is asked about each request or pod."""

    def act(self) -> Range:
        """What is due now. Returns after how many seconds it acts again, at least and at most."""
        raise NotImplementedError

    def run(self) -> None:
        self._wait(*self.act())

    def leave(self) -> None:
        """The trouble ends, and the cluster is as before."""

    def _wait(self, least: float, most: float) -> None:
        self.next_at = self.world.now + timedelta(seconds=self.random.uniform(least, most))

    def jobs(self) -> list[Object]:
        """Those that it disturbs: all but the ones in another namespace."""
        objects = self.world.api.objects.items()
        return [obj for (plural, namespace, _), obj in objects if (plural, namespace) == ("trainjobs", NAMESPACE)]

    def pods(self, role: str = "", *, phases: tuple[str, ...] = ("Running",)) -> list[Object]:
        """Those of the jobs that it disturbs, as long as nothing else has ended them, by name."""
        found = (
            pod
            for pod in self.world.pods()
            if pod["metadata"]["namespace"] == NAMESPACE
            and not is_inert(pod)
            and role in ("", role_of(pod))
            and pod["status"].get("phase") in phases
            and "deletionTimestamp" not in pod["metadata"]
            and name_of(pod) not in self.world.silent
            and self.world.job_of(pod) is not None
        )
        return sorted(found, key=name_of)

    def choose_pod(self, role: str = "") -> Object | None:
        """Any that runs; a head as often as all workers together."""
        role = role or self.random.choice((names.HEAD, names.WORKER, names.WORKER))
        found = self.pods(role)
        return self.random.choice(found) if found else None

    def choose_node(self) -> str:
        """One that a job uses, or an empty string."""
        pod = self.choose_pod()
        return node_of(pod) if pod else ""

    def pods_on(self, node: str) -> list[Object]:
        return [pod for pod in self.pods(phases=("Pending", "Running")) if node_of(pod) == node]

    def begin_refusing(self) -> None:
        self.refusals.append([self.world.now, datetime.max.replace(tzinfo=self.world.now.tzinfo)])

    def end_refusing(self) -> None:
        if self.refusals:
            self.refusals[-1][1] = min(self.refusals[-1][1], self.world.now)

    def disturb(self, pod: Object) -> None:
        """From now on the pod does not count as healthy."""
        self.world.disturbed.add(pod["metadata"]["uid"])

    def change_status(self, pod: Object, **status: Any) -> None:
        self.disturb(pod)
        self.world.api.patch(place_of(pod), {"status": status}, subresource="status")

    def refuse(self, pod: Object, reason: str, message: str) -> None:
        """pkg/kubelet/kubelet.go: rejectPod sets phase, reason and message only."""
        message = f"Pod was rejected: {message}"
        self.change_status(pod, phase="Failed", reason=reason, message=message, containerStatuses=None)

    def end_by_kubelet(self, pod: Object, status: tuple[str, str], *, text: str = "", has_time: bool = False) -> None:
        """The kubelet ends a pod that ran. pkg/kubelet/eviction/eviction_manager.go: evictPod, and the like: status
        reason and message, and a condition DisruptionTarget with its own text. `has_time`: for SIGTERM's handler."""
        self.disturb(pod)
        if has_time:
            self.world.terminate(pod)
        else:
            self.world.kill_pod(pod)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        condition["message"] = text or status[1]
        ended = self.world.find_pod(name_of(pod))
        if ended is not None and ended["status"].get("phase") != "Succeeded":
            self.change_status(pod, phase="Failed", reason=status[0], message=status[1], conditions=[condition])

    def taint(self, node: str, key: str, *, effects: tuple[str, ...] = ("NoSchedule",), ready: str = "False") -> None:
        """As the node lifecycle controller does with a node that is not ready."""
        place = ("nodes", "", node)
        if place in self.world.api.objects:
            taints = [{"key": key, "effect": effect} for effect in effects]
            conditions = [{"type": "Ready", "status": ready, "reason": "KubeletNotReady"}]
            self.world.api.patch(place, {"spec": {"taints": taints}})
            self.world.api.patch(place, {"status": {"conditions": conditions}}, subresource="status")

    def switch_off(self, node: str) -> None:
        """Its machine has no power: nothing on it acts any more, and nobody has told the API server."""
        for pod in self.world.pods():
            if node_of(pod) == node and pod["metadata"]["namespace"] == NAMESPACE:
                self.disturb(pod)
                self.world.silent.add(name_of(pod))
                self.world.drivers.pop(pod["metadata"]["uid"], None)

    def collect(self, node: str, *, has_condition: bool) -> None:
        """pkg/controller/podgc/gc_controller.go: markFailedAndDeletePodWithCondition, of all pods of a node; for those
        of an out-of-service node (gcTerminating) without the condition."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
        condition["message"] = "PodGC: node no longer exists"
        for pod in self.world.pods():
            if node_of(pod) != node or pod["metadata"]["namespace"] != NAMESPACE:
                continue
            if pod["status"].get("phase") not in ENDED:
                self.change_status(pod, phase="Failed", **({"conditions": [condition]} if has_condition else {}))
            self.world.api.delete(place_of(pod), {"gracePeriodSeconds": 0})
            self.world.silent.discard(name_of(pod))
            self.world.unreachable.discard(name_of(pod))

    def evict_by_taint(self, pod: Object) -> None:
        """pkg/controller/tainteviction/taint_eviction.go: addConditionAndDeletePod. Before that the node lifecycle
        controller has marked the pods of the node (pkg/controller/util/node/controller_utils.go: MarkPodsNotReady)."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
        condition["message"] = "Taint manager: deleting due to NoExecute taint"
        self.change_status(pod, conditions=[{"type": "Ready", "status": "False"}, condition])
        self.world.api.delete(place_of(pod), {})

    def heal(self, node: str) -> None:
        place = ("nodes", "", node)
        if place in self.world.api.objects:
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            self.world.api.patch(place, {"spec": {"taints": None}})
            self.world.api.patch(place, {"status": {"conditions": [ready]}}, subresource="status")


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")
