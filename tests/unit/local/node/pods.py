"""Pods of a node whose API server is the model, and what the node has said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

from railhead.local.node.agent import Agent
from tests.model.api_server import Object
from tests.model.client import ModelClient


def make_pod(name: str = "pod", *containers: Object, **spec: object) -> Object:
    """A pod of this node; without containers it has one that ends at once.

    Its uid is its own, as in a cluster: by it a container's processes are found, also those of another test.
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


def give(agent: Agent, client: ModelClient, pod: Object) -> None:
    """The pod is bound to the node, and its watch says so."""
    agent.informer.record_write(client.api.put(pod))


def statuses(client: ModelClient, pod: str) -> list[Object]:
    return [r.body["status"] for r in client.asked if (r.verb, r.plural, r.name) == ("patch/status", "pods", pod)]


async def until(is_so: Callable[[], object]) -> None:
    """Waits for what a process does."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
