"""Kueue on the test's API server: its kinds, its webhook's rules, and its controller, whose rounds the test runs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from tests.api.server import MERGE_PATCH, ApiServer
from tests.kueue.client import (
    DEFINITIONS,
    Installation,
    Kueue,
    build_pod_set,
    build_workload,
    create_object,
    remove_definitions,
)
from tests.kueue.definitions import API, GROUP, POLICY, build_definitions, build_webhook
from tests.kueue.reconcile import World, advance
from tests.kueue.topology import GATE, HOST, Nodes, find_ungated, is_placed
from tests.kueue.workload import Object
from tests.waiting import wait_until

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = f"{POLICIES[:-3]}ybindings"
START = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class StandInInstallation(Installation):
    server: ApiServer

    def install(self) -> None:
        for body in build_definitions():
            create_object(self.server, DEFINITIONS, body)
            path = f"{API}/{body['spec']['names']['plural']}"
            wait_until(f"{path} is served", partial(self._is_served, path))
        policy, binding = build_webhook()
        create_object(self.server, POLICIES, policy)
        create_object(self.server, BINDINGS, binding)
        bad = build_workload("probe", pod_sets=[build_pod_set(name, minCount=1) for name in ("a", "b")])
        path = f"{API}/namespaces/default/workloads"
        wait_until("the rules of the webhook", lambda: self._create_dry(path, bad) == 403)

    def remove(self) -> None:
        for path in (BINDINGS, POLICIES):
            assert self.server.request("DELETE", f"{path}/{POLICY}").status == 200
        remove_definitions(self.server, [body["metadata"]["name"] for body in build_definitions()])

    def at(self, namespace: str) -> StandIn:
        return StandIn(self.server, namespace)

    def _is_served(self, path: str) -> bool:
        return self.server.request("GET", path).status == 200

    def _create_dry(self, path: str, body: Object) -> int:
        return self.server.request("POST", path, body, dryRun="All").status


@contextmanager
def deny_pods_ready(server: ApiServer, namespace: str) -> Iterator[None]:
    """A policy denies what sets PodsReady of a Workload of the namespace, with the words `not today`."""
    name, probe = f"deny-{namespace}", f"{API}/namespaces/{namespace}/workloads/probe/status"
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1beta2"],
        "operations": ["UPDATE"],
        "resources": ["workloads/status"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    says = "!has(object.status.conditions) || object.status.conditions.all(c, c.type != 'PodsReady')"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
        "validations": [{"expression": says, "message": "not today"}],
    }
    metadata = {"metadata": {"name": name}}
    create_object(server, POLICIES, {**metadata, "kind": "ValidatingAdmissionPolicy", "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"]}
    create_object(server, BINDINGS, {**metadata, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound})
    create_object(
        server, probe.removesuffix("/probe/status"), build_workload("probe", pod_sets=[build_pod_set("main")])
    )
    condition = {"type": "PodsReady", "status": "True", "reason": "Started", "message": "", "lastTransitionTime": START}
    change = {"status": {"conditions": [condition]}}

    def is_denied() -> bool:
        return server.request("PATCH", probe, change, content_type=MERGE_PATCH, dryRun="All").status == 422

    wait_until("the policy is in force", is_denied)
    server.request("DELETE", probe.removesuffix("/status"))
    try:
        yield
    finally:
        for path in (BINDINGS, POLICIES):
            server.request("DELETE", f"{path}/{name}")


@dataclass
class StandIn(Kueue):
    """It acts only in `run_once`."""

    pods_ready_timeout: timedelta | None = None
    backoff_seconds: int = 60

    def make_check(self, name: str) -> None:
        """For it, all checks exist."""

    @contextmanager
    def expect_pods(self, *, seconds: int, backoff_seconds: int) -> Iterator[None]:
        self.pods_ready_timeout, self.backoff_seconds = timedelta(seconds=seconds), backoff_seconds
        yield
        self.pods_ready_timeout = None

    def run_once(self) -> int:
        """One round of the controllers; returns how many Workloads it changed."""
        before = self.list()
        changed = advance(self._look(before), datetime.now(UTC))
        for workload in changed:
            self._write(before[workload["metadata"]["name"]], workload)
        return len(changed) + self._ungate(before.values())

    def settle(self) -> None:
        """Runs until nothing changes."""
        wait_until("nothing changes", lambda: not self.run_once())

    def _ungate(self, workloads: Iterable[Object]) -> int:
        """Gives nodes to the gated pods of Workloads that were admitted before this round."""
        admitted = [each for each in workloads if is_placed(each)]
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        pods, ungated = self.server.list(path) if admitted else [], 0
        for workload in admitted:
            for pod, node in find_ungated(workload, pods):
                gates = [each for each in pod["spec"]["schedulingGates"] if each["name"] != GATE]
                body = {"spec": {"schedulingGates": gates, "nodeSelector": {HOST: node}}}
                answer = self.server.request(
                    "PATCH", f"{path}/{pod['metadata']['name']}", body, content_type=MERGE_PATCH
                )
                assert answer.status in (200, 404), answer.message
                ungated += 1
        return ungated

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
            self._look_at_nodes(clusterwide["resourceflavors"].get(self.namespace, {})),
        )

    def _look_at_nodes(self, flavor: Object) -> Nodes:
        if "topologyName" not in flavor.get("spec", {}):
            return Nodes()
        topologies = self.server.list(f"{API}/topologies")
        nodes = [each for each in self.server.list("/api/v1/nodes") if "allocatable" in each.get("status", {})]
        return Nodes(nodes, {each["metadata"]["name"]: each for each in topologies})

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
