"""Pods of a node whose API server is the model, and the statuses that the node has sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

from railhead.local.node.agent import Agent
from tests.model.api_server import Object
from tests.model.client import ModelClient


def make_pod(name: str = "pod", *containers: Object, **spec: object) -> Object:
    """A pod of this node; by default with one container that exits at once.

    Its uid is unique, as in a cluster: a container's processes are found by it, and other tests' must not be.
    """
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}-{uuid4()}"},
        "spec": {
            "nodeName": "local",
            "restartPolicy": "Never",
            "containers": list(containers) or [{"name": "main", "command": ["true"]}],
            **spec,
        },
    }


def bind(agent: Agent, client: ModelClient, pod: Object) -> None:
    """Bind the pod to the node, and notify its informer."""
    agent.informer.record_write(client.api.put(pod))


def statuses(client: ModelClient, pod: str) -> list[Object]:
    return [r.body["status"] for r in client.asked if (r.verb, r.plural, r.name) == ("patch/status", "pods", pod)]


async def until(is_so: Callable[[], object]) -> None:
    """Wait for an effect of a process."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
