"""Kueue's objects on the test's API server, as users and administrators write them, whichever Kueue acts on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from railhead.contract.times import format_time
from tests.api.server import MERGE_PATCH, ApiServer
from tests.kueue.definitions import API
from tests.kueue.workload import Object
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"
AMOUNTS = {"cpu": "1000", "memory": "10Ti"}


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Installation(ABC):
    """A Kueue for the whole cluster, and what the test sees of it in a namespace."""

    @abstractmethod
    def install(self) -> None:
        """Until the API server serves all kinds and asks the webhooks."""

    @abstractmethod
    def remove(self) -> None:
        """As `kubectl delete` of its manifests: its objects go with their kinds."""

    @abstractmethod
    def at(self, namespace: str) -> Kueue: ...


def remove_definitions(server: ApiServer, names: Sequence[str]) -> None:
    """Deletes these kinds of Kueue with all their objects, whose finalizers hold nothing up."""
    for name in names:
        assert server.request("DELETE", f"{DEFINITIONS}/{name}").status in (200, 404)
        plural = name.partition(".")[0]
        for item in server.request("GET", f"{API}/{plural}").body.get("items") or ():  # not found once the kind is gone
            namespace = item["metadata"].get("namespace")
            folder = f"{API}/namespaces/{namespace}" if namespace else API
            change = {"metadata": {"finalizers": None}}
            server.request("PATCH", f"{folder}/{plural}/{item['metadata']['name']}", change, content_type=MERGE_PATCH)
        wait_until(f"{plural} are gone", partial(_is_gone, server, f"{API}/{plural}"))


def _is_gone(server: ApiServer, path: str) -> bool:
    return server.request("GET", path).status == 404


def create_object(server: ApiServer, path: str, body: Object) -> None:
    answer = server.request("POST", path, body)
    assert answer.status in (201, 409), answer.message


@dataclass
class Kueue(ABC):
    """One namespace, with a ClusterQueue of the same name."""

    server: ApiServer
    namespace: str

    def create(self, plural: str, kind: str, name: str, *, is_namespaced: bool = False, **spec: Any) -> None:
        body = {"apiVersion": API.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}, "spec": spec}
        create_object(self.server, f"{self._folder if is_namespaced else API}/{plural}", body)

    def make_queue(self, *, gpus: int, name: str = "team", flavor: Object | None = None, **spec: Any) -> None:
        """A LocalQueue, and the namespace's ClusterQueue with one flavor; both have the namespace's name."""
        self.create("resourceflavors", "ResourceFlavor", self.namespace, **(flavor or {}))
        amounts = {**AMOUNTS, GPU: str(gpus)}
        resources = [{"name": key, "nominalQuota": value} for key, value in amounts.items()]
        group = {"coveredResources": list(amounts), "flavors": [{"name": self.namespace, "resources": resources}]}
        self.create(
            "clusterqueues", "ClusterQueue", self.namespace, namespaceSelector={}, resourceGroups=[group], **spec
        )
        self.make_local_queue(name)

    def make_topology(self, *levels: str) -> Object:
        """A Topology of the namespace's nodes, from the widest level down; returns the spec of a flavor for it."""
        self.create("topologies", "Topology", self.namespace, levels=[{"nodeLabel": each} for each in levels])
        return {"nodeLabels": {"pool": self.namespace}, "topologyName": self.namespace}

    def make_local_queue(self, name: str) -> None:
        self.create("localqueues", "LocalQueue", name, is_namespaced=True, clusterQueue=self.namespace)

    def delete_local_queue(self, name: str) -> None:
        assert self.server.request("DELETE", f"{self._folder}/localqueues/{name}").status == 200

    def make_priority_class(self, name: str, value: int) -> None:
        body = {"apiVersion": API.removeprefix("/apis/"), "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        create_object(self.server, f"{API}/workloadpriorityclasses", {**body, "value": value})

    @abstractmethod
    def make_check(self, name: str) -> None:
        """An AdmissionCheck whose controller is the test."""

    def set_check(self, workload: Object, state: str, message: str = "", *updates: Object) -> None:
        """As the controller of the Workload's one admission check; `updates` are of its pod sets."""
        [check] = workload["status"]["admissionChecks"]
        changed = {**check, "state": state, "message": message, "lastTransitionTime": format_time(datetime.now(UTC))}
        changed |= {"podSetUpdates": list(updates)}
        self.patch(workload["metadata"]["name"], status={"admissionChecks": [changed]})

    def change_queue(self, **spec: Any) -> None:
        """The administrator's patch of the ClusterQueue."""
        self.merge(f"{API}/clusterqueues/{self.namespace}", {"spec": spec})

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
        self.merge(path, body)

    def merge(self, path: str, body: Object) -> None:
        """A merge patch. Raises AssertionError with the API server's refusal."""
        answer = self.server.request("PATCH", path, body, content_type=MERGE_PATCH)
        assert answer.status == 200, answer.message

    def delete(self, name: str) -> Object:
        """Deletes a Workload; returns it if a finalizer holds it, else the API server's Status."""
        answer = self.server.request("DELETE", f"{self._folder}/workloads/{name}")
        assert answer.status == 200, answer.message
        return answer.body

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

    @abstractmethod
    def run_once(self) -> int:
        """Lets Kueue act if it acts only in the test's turn; returns how many Workloads it has changed."""

    @abstractmethod
    def settle(self) -> None:
        """Until Kueue changes nothing."""

    @abstractmethod
    def expect_pods(self, *, seconds: int, backoff_seconds: int) -> AbstractContextManager[None]:
        """Meanwhile Kueue has waitForPodsReady with this timeout and this first backoff."""

    def until(self, what: str, ask: Callable[[], Any], *, seconds: float = 30.0) -> Any:
        """As wait_until, while Kueue acts."""

        def run_and_ask() -> Any:
            self.run_once()
            return ask()

        return wait_until(what, run_and_ask, seconds=seconds, tell=lambda: str(self.list()))

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
