"""The Node object: registered once, kept alive by its Lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
from datetime import UTC, datetime
from typing import Any

from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.kinds import LEASE, NODE
from railhead.local.control_plane.binaries import KUBERNETES_VERSION
from railhead.local.node.agent import GPU, NodeConfig

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
RENEW_SECONDS = 10.0
MAX_PODS = 250


def build_status(config: NodeConfig, *, port: int, now: str) -> dict[str, Any]:
    """The node's status as a kubelet would give it."""
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
        "message": "pods run as processes of this machine; images are not pulled",
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
    """Makes the Node, or takes over the one of an earlier agent."""
    labels = {"kubernetes.io/hostname": config.name, "kubernetes.io/os": "linux"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": config.name, "labels": labels}}
    with contextlib.suppress(Conflict):
        await client.create(NODE, node)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"status": build_status(config, port=port, now=now)}
    await client.patch(NODE, config.name, body, type_="strategic", subresource="status")


async def keep_alive(client: KubeClient, config: NodeConfig) -> None:
    """Renews the Lease by which the control plane knows that the node lives; never returns by itself."""
    lease: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": config.name, "namespace": LEASE_NAMESPACE},
        "spec": {"holderIdentity": config.name, "leaseDurationSeconds": 40},
    }
    while True:
        lease["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        try:
            try:
                await client.create(LEASE, lease, namespace=LEASE_NAMESPACE)
            except Conflict:
                body = {"spec": lease["spec"]}
                await client.patch(LEASE, config.name, body, type_="merge", namespace=LEASE_NAMESPACE)
        except KubeError as error:
            log.warning("lease: %s", error)
        await asyncio.sleep(RENEW_SECONDS)
