"""A client of an API server that is a dict: objects are got from it, what is written is kept in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from railhead.kube.errors import Gone
from railhead.kube.kinds import Kind
from tests.unit.controller.fake_client import FakeClient, Request

Object = dict[str, Any]
TOKEN = "signed"


class Store(FakeClient):
    """`objects[plural, name]` is there to be got; everything may be written; a TokenRequest is answered."""

    def __init__(self, objects: dict[tuple[str, str], Object] | None = None) -> None:
        super().__init__()
        self.objects = objects or {}

    async def _call(self, method: str, kind: Kind, path: str, *, verb: str, body: Any = None, **rest: Any) -> Object:
        if verb == "get":
            try:
                return self.objects[kind.plural, path.rsplit("/", 1)[-1]]
            except KeyError:
                raise Gone(404, "NotFound", path) from None
        if verb == "create/token":
            self.asked.append(Request(verb, kind.plural, path, body))
            return {"status": {"token": TOKEN}}
        return await super()._call(method, kind, path, verb=verb, body=body, **rest)

    def statuses(self, pod: str) -> list[Object]:
        return [r.body["status"] for r in self.asked if r.verb == "patch/status" and r.path.endswith(f"/{pod}/status")]


def make_pod(name: str = "pod", *containers: Object, **spec: Any) -> Object:
    """A pod of this node; without containers it has one that ends at once."""
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {
            "nodeName": "local",
            "restartPolicy": "Never",
            "containers": list(containers) or [{"name": "main", "command": ["true"]}],
            **spec,
        },
    }


async def until(is_so: Callable[[], object]) -> None:
    """Waits for what a process does."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
