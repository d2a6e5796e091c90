"""The Node object: registered, kept alive by its Lease, and set ready again after it was considered lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
from datetime import UTC, datetime

from railhead.api.base import Object
from railhead.contract.times import now_text
from railhead.kube.client import KubeClient
from railhead.kube.clock import format_micro_time
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.kinds import LEASE, NODE
from railhead.local.control_plane.binaries import KUBERNETES_VERSION
from railhead.local.node.agent import GPU, NodeConfig

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
RENEW_SECONDS = 10.0
MAX_PODS = 250


def build_status(config: NodeConfig, *, port: int, now: str) -> Object:
    """The node's status as a kubelet would report it."""
    capacity = {
        "cpu": str(config.cpus),
        "memory": f"{config.memory_bytes // 1024}Ki",
        "pods": str(MAX_PODS),
        **({GPU: str(config.gpus)} if config.gpus else {}),
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "AgentReady",
        "message": "pods run as processes on this machine; images are not pulled",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [ready],
        "addresses": [
            {"type": "InternalIP", "address": config.address},
            {"type": "Hostname", "address": config.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
            "operatingSystem": "linux",
            "kubeletVersion": f"v{KUBERNETES_VERSION}-railhead-local",
            "containerRuntimeVersion": "railhead://processes",
            "kernelVersion": platform.release(),
            "osImage": platform.system(),
            "bootID": "",
            "machineID": "",
            "systemUUID": "",
            "kubeProxyVersion": "",
        },
    }


async def register(client: KubeClient, config: NodeConfig, *, port: int) -> None:
    """Creates the Node, or takes over the one of an earlier agent."""
    labels = {"kubernetes.io/hostname": config.name, "kubernetes.io/os": "linux"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": config.name, "labels": labels}}
    with contextlib.suppress(Conflict):
        await client.create(NODE, node)
    now = now_text()
    body = {"status": build_status(config, port=port, now=now)}
    await client.patch(NODE, config.name, body, type_="strategic", subresource="status")


async def keep_alive(client: KubeClient, config: NodeConfig, *, port: int) -> None:
    """Renews the Lease that tells the control plane that the node is alive; runs until it is cancelled."""
    while True:
        try:
            await _renew_lease(client, config.name)
            await _be_ready(client, config, port=port)
        except KubeError as error:
            log.warning("the node's Lease could not be renewed: %s", error)
        await asyncio.sleep(RENEW_SECONDS)


async def _renew_lease(client: KubeClient, name: str) -> None:
    now = format_micro_time(datetime.now(UTC))
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
    metadata = {"name": name, "namespace": LEASE_NAMESPACE}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    try:
        await client.create(LEASE, lease, namespace=LEASE_NAMESPACE)
    except Conflict:
        await client.patch(LEASE, name, {"spec": spec}, type_="merge", namespace=LEASE_NAMESPACE)


async def _be_ready(client: KubeClient, config: NodeConfig, *, port: int) -> None:
    """A node that was silent for 40 s, for example while the API server was down, stays Unknown until it reports."""
    node = await client.get(NODE, config.name)
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
    if conditions.get("Ready") != "True":
        await register(client, config, port=port)
        log.warning("the node was considered lost, and is ready again")
