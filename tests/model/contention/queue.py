"""Kueue in the simulated cluster: one ClusterQueue with preemption, played by the rules of tests/kueue."""

from __future__ import annotations

import copy
from datetime import datetime

from tests.kueue.reconcile import World, advance
from tests.model.api_server import ModelApiServer, Object

NAME = "team"
RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
PLENTY = "1Pi"


class ModelKueue:
    """Kueue's controllers; each round is one step."""

    def __init__(self, api: ModelApiServer, namespace: str, *, gpus: int, priorities: dict[str, int]) -> None:
        self._api = api
        quotas = [{"name": name, "nominalQuota": PLENTY} for name in RESOURCES[:2]]
        quotas.append({"name": RESOURCES[2], "nominalQuota": str(gpus)})
        group = {"coveredResources": list(RESOURCES), "flavors": [{"name": NAME, "resources": quotas}]}
        spec = {"resourceGroups": [group], "preemption": {"withinClusterQueue": "LowerPriority"}}
        self._queues = {NAME: {"metadata": {"name": NAME}, "spec": spec}}
        self._local = {(namespace, NAME): {"metadata": {"name": NAME}, "spec": {"clusterQueue": NAME}}}
        flavor = ("resourceflavors", "", NAME)
        api.create(flavor, {"metadata": {"name": NAME}, "spec": {}})
        for name, value in priorities.items():
            api.create(("workloadpriorityclasses", "", name), {"metadata": {"name": name}, "value": value})
        self._flavors = {NAME: api.objects[flavor]}

    def run_once(self, now: datetime) -> bool:
        """Returns whether anything changed."""
        known = [copy.deepcopy(obj) for (kind, _, _), obj in self._api.objects.items() if kind == "workloads"]
        for each in known:
            each.setdefault("status", {})
            each["metadata"].setdefault("generation", 1)
        changed = advance(World(known, self._queues, self._local, self._flavors), now)
        for workload in changed:
            self._write(workload)
        return bool(changed)

    def _write(self, workload: Object) -> None:
        place = ("workloads", str(workload["metadata"]["namespace"]), str(workload["metadata"]["name"]))
        kept = {"spec": workload["spec"], "metadata": {"finalizers": workload["metadata"].get("finalizers", [])}}
        self._api.patch(place, kept)
        if place in self._api.objects:
            self._api.patch(
                place,
                [{"op": "add", "path": "/status", "value": workload["status"]}],
                subresource="status",
                content_type="application/json-patch+json",
            )
