"""An API server on loopback that serves TrainJobs to kopf: discovery, paged lists, watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from railhead.api import names
from tests.unit.controller.raws import Object, make_job

GROUP_VERSION = f"{names.GROUP}/{names.VERSION}"
EXPIRED: Object = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
DISCOVERY: dict[str, Object] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": []},
    "/apis": {
        "groups": [
            {
                "name": group,
                "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version},
            }
            for group, version in ((names.GROUP, names.VERSION), ("apiextensions.k8s.io", "v1"))
        ]
    },
}


def _resource(kind: str, plural: str, *, is_namespaced: bool = False) -> Object:
    verbs = ["get", "list", "watch", "patch"]
    return {"name": plural, "singularName": "", "namespaced": is_namespaced, "kind": kind, "verbs": verbs}


DISCOVERY["/api/v1"]["resources"] = [
    _resource("Namespace", "namespaces"),
    _resource("Event", "events", is_namespaced=True),
]
DISCOVERY["/apis/apiextensions.k8s.io/v1"] = {
    "resources": [_resource("CustomResourceDefinition", "customresourcedefinitions")]
}
DISCOVERY[f"/apis/{GROUP_VERSION}"] = {"resources": [_resource(names.KIND, names.PLURAL, is_namespaced=True)]}


@dataclass(frozen=True)
class Asked:
    """One list or watch of TrainJobs; `namespace` is empty for all."""

    namespace: str
    query: dict[str, str]

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query

    @property
    def page(self) -> str:
        """The continue token; empty for the first page."""
        return self.query.get("continue", "")


class JobServer:
    """Its jobs by name. A watch reports nothing but what `send` gives it.

    Attributes:
        asked: all lists and watches, in order.
        refuse: answers 410 to a request for which it is true.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Object] = {}
        self.version = 100
        self.asked: list[Asked] = []
        self.refuse: Callable[[Asked], bool] = lambda asked: False
        self._watches: list[web.StreamResponse] = []

    def add(self, *job_names: str, namespace: str = "default") -> None:
        for name in job_names:
            self.version += 1
            metadata = {"namespace": namespace}
            self.jobs[name] = make_job(self.version, name=name, uid=f"uid-{name}", metadata=metadata)

    async def send(self, type_: str, obj: Object) -> None:
        """To the newest watch."""
        await self._watches[-1].write(json.dumps({"type": type_, "object": obj}).encode() + b"\n")

    @property
    def watches(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.is_watch]

    @property
    def lists(self) -> list[Asked]:
        return [asked for asked in self.asked if not asked.is_watch]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path in DISCOVERY:
            return web.json_response(DISCOVERY[request.path])
        _, _, scope = request.path.partition("/namespaces/")
        asked = Asked(scope.partition("/")[0], dict(request.query))
        self.asked.append(asked)
        if self.refuse(asked):
            return web.json_response(EXPIRED, status=410)
        return await self._watch(request) if asked.is_watch else web.json_response(self._list(asked))

    def _list(self, asked: Asked) -> Object:
        here = [job for job in self.jobs.values() if asked.namespace in ("", job["metadata"]["namespace"])]
        begin = int(asked.page or 0)
        end = begin + int(asked.query.get("limit", len(here)))
        metadata = {"resourceVersion": str(self.version), "continue": str(end) if end < len(here) else ""}
        return {
            "kind": f"{names.KIND}List",
            "apiVersion": GROUP_VERSION,
            "metadata": metadata,
            "items": here[begin:end],
        }

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self._watches.append(response)
        await asyncio.Event().wait()  # until the client or the server closes
        return response


@asynccontextmanager
async def serve_jobs(folder: Path) -> AsyncIterator[tuple[JobServer, Path]]:
    """The server, and a kubeconfig for it."""
    jobs = JobServer()
    app = web.Application()
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]] = jobs.handle
    app.router.add_route("GET", "/{path:.*}", handle)
    server = TestServer(app)
    await server.start_server()
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
        "users": [{"name": "c", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield jobs, path
    finally:
        await server.close()
