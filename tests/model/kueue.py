"""Kueue in the simulated cluster: one ClusterQueue with preemption, played by the rules of tests/kueue."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from datetime import datetime

from railhead.kube.errors import classify_response
from tests.kueue.client import build_pod_set, build_workload
from tests.kueue.reconcile import World, advance
from tests.kueue.topology import HOST, Nodes, find_ungated, is_placed
from tests.kueue.workload import is_true
from tests.model.api_server import ModelApiServer, Object, Place

NAME = "team"
RIVAL = "rival"  # a Workload of another owner
RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
PLENTY = "1Pi"
WORKLOADS = "workloads"
KINDS = (WORKLOADS, "resourceflavors", "workloadpriorityclasses")
TOPOLOGY: Object = {"spec": {"levels": [{"nodeLabel": HOST}]}}
TERMINATING = "create not allowed while custom resource definition is terminating"


class ModelKueue:
    """Kueue's controllers, each round of which is one step, and an administrator of Kueue.

    Attributes:
        held: uids of the jobs whose Workload the administrator has made inactive.
    """

    def __init__(
        self,
        api: ModelApiServer,
        namespace: str,
        *,
        gpus: int,
        priorities: dict[str, int] | None = None,
        has_topology: bool = False,
    ) -> None:
        """With `has_topology` Kueue chooses a node for each pod, of those that the API server has."""
        self._api, self._namespace, self._priorities = api, namespace, priorities or {}
        self._ask_others, api.policy = api.policy, self._judge
        self._are_definitions_deleted = self._is_wanted_again = False
        self._has_topology = has_topology
        self.held: set[str] = set()
        quotas = [{"name": name, "nominalQuota": PLENTY} for name in RESOURCES[:2]]
        quotas.append({"name": RESOURCES[2], "nominalQuota": str(gpus)})
        group = {"coveredResources": list(RESOURCES), "flavors": [{"name": NAME, "resources": quotas}]}
        self._spec: Object = {"resourceGroups": [group], "preemption": {"withinClusterQueue": "LowerPriority"}}
        self._queues = {NAME: {"metadata": {"name": NAME}, "spec": self._spec}}
        self._local = {(namespace, NAME): {"metadata": {"name": NAME}, "spec": {"clusterQueue": NAME}}}
        self._create_objects()

    def _create_objects(self) -> None:
        flavor = ("resourceflavors", "", NAME)
        spec = {"topologyName": NAME} if self._has_topology else {}
        self._api.create(flavor, {"metadata": {"name": NAME}, "spec": spec})
        for name, value in self._priorities.items():
            self._api.create(("workloadpriorityclasses", "", name), {"metadata": {"name": name}, "value": value})
        self._flavors = {NAME: self._api.objects[flavor]}

    def run_once(self, now: datetime) -> bool:
        """Returns whether anything changed."""
        if self._is_wanted_again and all(map(self.is_missing, KINDS)):
            self._are_definitions_deleted = self._is_wanted_again = False
            self._create_objects()
            return True
        known = [copy.deepcopy(obj) for (kind, _, _), obj in self._api.objects.items() if kind == WORKLOADS]
        for each in known:
            each.setdefault("status", {})
            each["metadata"].setdefault("generation", 1)
        world = World(known)
        if not self._are_definitions_deleted:
            world = World(known, self._queues, self._local, self._flavors, topology=self._look_at_nodes())
        changed = advance(world, now)
        for workload in changed:
            self._write(workload)
        return self._ungate(known) or bool(changed)

    def _look_at_nodes(self) -> Nodes:
        """Each has room for one pod with a GPU."""
        nodes = [obj for (kind, _, _), obj in self._api.objects.items() if kind == "nodes"]
        status = {"allocatable": {"cpu": PLENTY, "memory": PLENTY, "nvidia.com/gpu": "1"}}
        return Nodes([{**each, "status": status} for each in nodes], {NAME: TOPOLOGY})

    def _ungate(self, workloads: Iterable[Object]) -> bool:
        """Gives nodes to the gated pods of Workloads that were admitted before this round."""
        pods = [obj for (kind, _, _), obj in self._api.objects.items() if kind == "pods"]
        found = [each for workload in filter(is_placed, workloads) for each in find_ungated(workload, pods)]
        for pod, node in found:
            place = ("pods", str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]))
            self._api.patch(place, {"spec": {"schedulingGates": [], "nodeSelector": {HOST: node}}})
        return bool(found)

    def _write(self, workload: Object) -> None:
        place = (WORKLOADS, str(workload["metadata"]["namespace"]), str(workload["metadata"]["name"]))
        kept = {"spec": workload["spec"], "metadata": {"finalizers": workload["metadata"].get("finalizers", [])}}
        self._api.patch(place, kept)
        if place in self._api.objects:
            self._api.patch(
                place,
                [{"op": "add", "path": "/status", "value": workload["status"]}],
                subresource="status",
                content_type="application/json-patch+json",
            )

    def _judge(self, method: str, place: Place, subresource: str) -> str:
        """As apiextensions-apiserver, pkg/apiserver/customresource_handler.go: ServeHTTP, answers for a definition that
        is deleted, and for one whose objects are."""
        if place[0] in KINDS and self.is_missing(place[0]):
            message = "the server could not find the requested resource"
            raise classify_response(404, json.dumps({"reason": "NotFound", "message": message}).encode())
        if place[0] in KINDS and self._are_definitions_deleted and method == "POST":
            body = {"reason": "MethodNotAllowed", "message": TERMINATING}
            raise classify_response(405, json.dumps(body).encode())
        return self._ask_others(method, place, subresource)

    def is_missing(self, plural: str = WORKLOADS) -> bool:
        """Whether the API server serves no such kind: the last object of a deleted definition takes it along."""
        return self._are_definitions_deleted and not any(place[0] == plural for place in self._api.objects)

    def delete_definitions(self) -> None:
        """An administrator deletes Kueue's CustomResourceDefinitions, and so all objects; finalizers hold Workloads."""
        self.held.clear()
        self._are_definitions_deleted = True
        for place in [each for each in self._api.objects if each[0] in KINDS]:
            self._api.delete(place, {})

    def install_again(self) -> None:
        """An administrator installs Kueue, as soon as no object of the deleted definitions is left."""
        self._is_wanted_again = self._are_definitions_deleted

    def stop(self) -> None:
        """The ClusterQueue admits nothing, and evicts what it has admitted."""
        self._spec["stopPolicy"] = "HoldAndDrain"

    def restart(self) -> None:
        self._spec.pop("stopPolicy", None)

    def compete(self, *, gpus: int, priority: int = 0) -> None:
        """Another owner asks for quota, for as long as `yield_quota` is not called and Kueue is installed."""
        if self._are_definitions_deleted:
            return
        body = build_workload(RIVAL, pod_sets=[build_pod_set("main", count=gpus, gpus=1)], priority=priority)
        self._api.create(self._rival, body)

    def yield_quota(self) -> None:
        if self.has_rival:
            self._api.remove(self._rival)

    @property
    def has_rival(self) -> bool:
        return self._rival in self._api.objects

    def is_rival_admitted(self) -> bool:
        rival = self._api.objects.get(self._rival, {})
        return bool(rival.get("status")) and is_true(rival, "Admitted")

    @property
    def _rival(self) -> Place:
        return WORKLOADS, self._namespace, RIVAL

    def hold(self, job: Object) -> None:
        """An administrator makes the job's Workload inactive. A deleted one takes the hold with it."""
        place = self._find_place(job)
        if place and "deletionTimestamp" not in self._api.objects[place]["metadata"]:
            self.held.add(job["metadata"]["uid"])
            self._api.patch(place, {"spec": {"active": False}})

    def lift_hold(self, job: Object) -> None:
        self.held.discard(job["metadata"]["uid"])
        if place := self._find_place(job):
            self._api.patch(place, {"spec": {"active": True}})

    def delete_workload(self, job: Object) -> None:
        """With it, an administrator's hold is gone."""
        self.held.discard(job["metadata"]["uid"])
        if place := self._find_place(job):
            self._api.delete(place, {})

    def find(self, job: Object) -> Object | None:
        """Returns the job's Workload."""
        place = self._find_place(job)
        return self._api.objects[place] if place else None

    def _find_place(self, job: Object) -> Place | None:
        uid = job["metadata"]["uid"]
        return next(
            (place for place, obj in self._api.objects.items() if place[0] == WORKLOADS and owns(uid, obj)), None
        )


def owns(job_uid: str, workload: Object) -> bool:
    return any(owner["uid"] == job_uid for owner in workload["metadata"].get("ownerReferences") or ())
