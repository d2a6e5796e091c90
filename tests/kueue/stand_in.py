"""Kueue on the test's API server: its kinds, its webhook's rules, and its controller, whose rounds the test runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from railhead.contract.text import format_time
from tests.api.server import MERGE_PATCH, ApiServer
from tests.kueue.definitions import API, build_definitions, build_webhook
from tests.kueue.reconcile import World, advance
from tests.kueue.workload import Object
from tests.waiting import wait_until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = f"{POLICIES[:-3]}ybindings"
GPU = "nvidia.com/gpu"
AMOUNTS = {"cpu": "1000", "memory": "10Ti"}


def install_kueue(server: ApiServer) -> None:
    """Until the API server serves all kinds and enforces the webhook's rules."""
    for body in build_definitions():
        _create(server, DEFINITIONS, body)
        path = f"{API}/{body['spec']['names']['plural']}"
        wait_until(f"{path} is served", partial(_is_served, server, path))
    policy, binding = build_webhook()
    _create(server, POLICIES, policy)
    _create(server, BINDINGS, binding)
    pod_sets = [build_pod_set(name, minCount=1) for name in ("a", "b")]
    bad = build_workload("probe", pod_sets=pod_sets)
    path = f"{API}/namespaces/default/workloads"
    wait_until("the rules of the webhook", lambda: server.request("POST", path, bad, dryRun="All").status == 422)


def remove_kueue(server: ApiServer) -> None:
    """As `kubectl delete` of its manifests: its objects go with their kinds, once no finalizer holds them."""
    for path in (BINDINGS, POLICIES):
        assert server.request("DELETE", f"{path}/kueue-workload-webhook").status == 200
    for body in build_definitions():
        path = f"{DEFINITIONS}/{body['metadata']['name']}"
        assert server.request("DELETE", path).status == 200
        if body["spec"]["names"]["kind"] == "Workload":
            _drop_finalizers(server)
        wait_until(f"{path} is gone", partial(_is_gone, server, path))


def _drop_finalizers(server: ApiServer) -> None:
    answer = server.request("GET", f"{API}/workloads")  # not found once the kind is gone
    for item in answer.body.get("items") or ():
        name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
        change = {"metadata": {"finalizers": None}}
        path = f"{API}/namespaces/{namespace}/workloads/{name}"
        server.request("PATCH", path, change, content_type=MERGE_PATCH)


def _create(server: ApiServer, path: str, body: Object) -> None:
    answer = server.request("POST", path, body)
    assert answer.status in (201, 409), answer.message


def _is_served(server: ApiServer, path: str) -> bool:
    return server.request("GET", path).status == 200


def _is_gone(server: ApiServer, path: str) -> bool:
    return server.request("GET", path).status == 404


@dataclass
class Kueue:
    """The controller, in one namespace of its own with a ClusterQueue of the same name; it acts only in `run_once`.

    Attributes:
        refused: the API server's words about its own writes, other than conflicts.
    """

    server: ApiServer
    namespace: str
    pods_ready_timeout: timedelta | None = None
    backoff_seconds: int = 60

    def create(self, plural: str, kind: str, name: str, *, is_namespaced: bool = False, **spec: Any) -> None:
        body = {"apiVersion": API.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}, "spec": spec}
        _create(self.server, f"{self._folder if is_namespaced else API}/{plural}", body)

    def make_queue(self, *, gpus: int, name: str = "team", flavor: Object | None = None, **spec: Any) -> None:
        """A LocalQueue, and the namespace's ClusterQueue with one flavor; both have the namespace's name."""
        self.create("resourceflavors", "ResourceFlavor", self.namespace, **(flavor or {}))
        amounts = {**AMOUNTS, GPU: str(gpus)}
        resources = [{"name": key, "nominalQuota": value} for key, value in amounts.items()]
        group = {"coveredResources": list(amounts), "flavors": [{"name": self.namespace, "resources": resources}]}
        self.create("clusterqueues", "ClusterQueue", self.namespace, resourceGroups=[group], **spec)
        self.make_local_queue(name)

    def make_local_queue(self, name: str) -> None:
        self.create("localqueues", "LocalQueue", name, is_namespaced=True, clusterQueue=self.namespace)

    def make_priority_class(self, name: str, value: int) -> None:
        body = {"apiVersion": API.removeprefix("/apis/"), "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        _create(self.server, f"{API}/workloadpriorityclasses", {**body, "value": value})

    def set_check(self, workload: Object, state: str, message: str = "", *updates: Object) -> None:
        """As the controller of the Workload's one admission check; `updates` are of its pod sets."""
        [check] = workload["status"]["admissionChecks"]
        changed = {**check, "state": state, "message": message, "lastTransitionTime": format_time(datetime.now(UTC))}
        changed |= {"podSetUpdates": list(updates)}
        self.patch(workload["metadata"]["name"], status={"admissionChecks": [changed]})

    def change_queue(self, **spec: Any) -> None:
        """The administrator's patch of the ClusterQueue."""
        answer = self.server.request(
            "PATCH", f"{API}/clusterqueues/{self.namespace}", {"spec": spec}, content_type=MERGE_PATCH
        )
        assert answer.status == 200, answer.message

    def submit(self, body: Object) -> Object:
        """Creates a Workload."""
        answer = self.server.request("POST", f"{self._folder}/workloads", body)
        assert answer.status == 201, answer.message
        return answer.body

    def patch(self, name: str, *, status: Object | None = None, **spec: Any) -> None:
        """A merge patch of a Workload's spec or status. Raises AssertionError with the API server's refusal."""
        path, body = (f"{self._folder}/workloads/{name}", {"spec": spec})
        if status is not None:
            path, body = f"{path}/status", {"status": status}
        answer = self.server.request("PATCH", path, body, content_type=MERGE_PATCH)
        assert answer.status == 200, answer.message

    def delete(self, name: str) -> None:
        assert self.server.request("DELETE", f"{self._folder}/workloads/{name}").status == 200

    def list(self) -> dict[str, Object]:
        """The namespace's Workloads, by name."""
        items = self.server.list(f"{self._folder}/workloads")
        return {item["metadata"]["name"]: {**item, "status": item.get("status", {})} for item in items}

    def find(self, job: str) -> Object | None:
        """The Workload that this TrainJob owns."""
        for found in self.list().values():
            if any(owner["name"] == job for owner in found["metadata"].get("ownerReferences", ())):
                return found
        return None

    def run_once(self) -> int:
        """One round of the controllers; returns how many Workloads it changed."""
        before = self.list()
        changed = advance(self._look(before), datetime.now(UTC))
        for workload in changed:
            self._write(before[workload["metadata"]["name"]], workload)
        return len(changed)

    def settle(self) -> None:
        """Runs until nothing changes."""
        wait_until("nothing changes", lambda: not self.run_once())

    def until(self, what: str, ask: Callable[[], Any], *, seconds: float = 30.0) -> Any:
        """As wait_until, while the controllers run."""

        def run_and_ask() -> Any:
            self.run_once()
            return ask()

        return wait_until(what, run_and_ask, seconds=seconds, tell=lambda: str(self.list()))

    def _look(self, workloads: dict[str, Object]) -> World:
        clusterwide = {
            plural: {item["metadata"]["name"]: item for item in self.server.list(f"{API}/{plural}")}
            for plural in ("clusterqueues", "resourceflavors")
        }
        local = self.server.list(f"{self._folder}/localqueues")
        return World(
            [copy.deepcopy(each) for each in workloads.values()],
            {name: each for name, each in clusterwide["clusterqueues"].items() if name == self.namespace},
            {(self.namespace, item["metadata"]["name"]): item for item in local},
            clusterwide["resourceflavors"],
            self.pods_ready_timeout,
            self.backoff_seconds,
        )

    def _write(self, before: Object, after: Object) -> None:
        """With the version that was read: a conflict is left to the next round."""
        path, body = f"{self._folder}/workloads/{after['metadata']['name']}", after
        if after["status"] != before["status"]:
            answer = self.server.request("PUT", f"{path}/status", body)
            assert answer.status in (200, 404, 409), answer.message
            if answer.status != 200:
                return
            body = copy.deepcopy(after)
            body["metadata"]["resourceVersion"] = answer.body["metadata"]["resourceVersion"]
        is_changed = after["spec"] != before["spec"]
        if is_changed or after["metadata"].get("finalizers") != before["metadata"].get("finalizers"):
            answer = self.server.request("PUT", path, body)
            assert answer.status in (200, 404, 409), answer.message

    @property
    def _folder(self) -> str:
        return f"{API}/namespaces/{self.namespace}"


def build_pod_set(name: str, *, count: int = 1, gpus: int = 0, **fields: Any) -> Object:
    requests = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "registry.example/train:1", "resources": {"requests": requests}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}, **fields}


def build_workload(name: str, *, pod_sets: list[Object], queue: str = "team", **spec: Any) -> Object:
    return {
        "apiVersion": API.removeprefix("/apis/"),
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"queueName": queue, "podSets": pod_sets, **spec},
    }
