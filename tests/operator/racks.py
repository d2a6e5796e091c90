"""Nodes in racks for a queue whose pods Kueue assigns to nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railhead.resources.placement import HOSTNAME
from tests.api.server import MERGE_PATCH
from tests.kueue.client import GPU, create_object
from tests.kueue.workload import Object
from tests.operator.queue_stage import Stage

RACK = "example.com/rack"
NODES = "/api/v1/nodes"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}


@dataclass
class Racks:
    """The nodes of a queue, with room for two GPUs each. Their names end in what the test calls them."""

    stage: Stage
    names: Sequence[str] = ()

    def make(self, **racks: str) -> None:
        """Each rack with the short names of its nodes; and the queue whose flavor has all of them."""
        namespace = self.stage.kueue.namespace
        self.names = [f"{namespace}-{node}" for nodes in racks.values() for node in nodes.split()]
        for rack, nodes in racks.items():
            for node in nodes.split():
                self._make(f"{namespace}-{node}", {"pool": namespace, RACK: rack})
        flavor = self.stage.kueue.make_topology(RACK, HOSTNAME)
        self.stage.kueue.make_queue(gpus=2 * len(self.names), flavor=flavor)

    def _make(self, name: str, labels: Mapping[str, str]) -> None:
        server = self.stage.cluster.server
        metadata = {"name": name, "labels": {**labels, HOSTNAME: name}}
        create_object(server, NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        amounts = {"cpu": "64", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110", GPU: "2"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [READY]}
        path = f"{NODES}/{name}/status"
        assert server.request("PATCH", path, {"status": status}, content_type=MERGE_PATCH).status == 200

    def lose(self, node: str) -> None:
        """The machine of the node is gone."""
        name = f"{self.stage.kueue.namespace}-{node}"
        assert self.stage.cluster.server.request("DELETE", f"{NODES}/{name}").status == 200

    def remove(self) -> None:
        for name in self.names:
            self.stage.cluster.server.request("DELETE", f"{NODES}/{name}")

    def wait_nodes(self, job: str, count: int, *, attempt: int = 1) -> dict[str, str]:
        """Until Kueue has let all pods of the attempt go; returns the short name of the node that each has to have,
        the workers' by slot."""

        def find() -> dict[str, str]:
            pods = self.stage.wait_pods(job, count, attempt=attempt).values()
            return {} if any(each["spec"].get("schedulingGates") for each in pods) else dict(map(find_node, pods))

        found: dict[str, str] = self.stage.until(f"nodes for {count} pods of {job}", find)
        return found


def find_node(pod: Object) -> tuple[str, str]:
    """Returns the pod's slot, or `head`, and the short name of the node that it has to have."""
    labels, node = pod["metadata"]["labels"], pod["spec"]["nodeSelector"][HOSTNAME]
    return labels.get("railhead.dev/slot", "head"), node.rpartition("-")[2]
