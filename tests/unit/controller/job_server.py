"""Serves the TrainJobs of ModelApiServer over HTTP on loopback, because kopf opens its own connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.model.api_server import JOBS, Entry, ModelApiServer, Object
from tests.model.faults import NOON
from tests.model.patches import matches_labels
from tests.unit.builders import SPEC


def make_error(code: int, reason: str) -> Object:
    """A Status object, as a response or as the object of an ERROR event."""
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "injected"}


EXPIRED = make_error(410, "Expired")


@dataclass(frozen=True)
class ListOrWatch:
    """One list or watch of TrainJobs; `namespace` is empty for all."""

    namespace: str
    query: dict[str, str]
    events: asyncio.Queue[Object | None] = field(default_factory=asyncio.Queue)

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query

    @property
    def after(self) -> str:
        """The last job of the previous page; empty for the first page."""
        return self.query.get("continue", "").rpartition("/")[2]

    def send(self, type_: str, obj: Object) -> None:
        """Send an event to the client of the watch."""
        self.events.put_nowait({"type": type_, "object": obj})

    def end(self) -> None:
        """As the API server ends each watch after some minutes."""
        self.events.put_nowait(None)

    def deliver(self, entry: Entry) -> None:
        """Send a change as an event, or as a bookmark if the watch does not cover the object."""
        if entry.plural != JOBS or self.namespace not in ("", entry.object["metadata"]["namespace"]):
            self.send("BOOKMARK", {"metadata": {"resourceVersion": str(entry.version)}})
        elif matches_labels(entry.object, self.query.get("labelSelector", "")):
            self.send(entry.type, entry.object)
        else:
            self.send("DELETED", entry.object)  # of an object that it never reported, too: clients ignore that


class JobServer:
    """Reports each change to all watches at once.

    Attributes:
        calls: all lists and watches, in order.
        expires: a call for which it is true gets 410.
        refuses: the status (0 = none) that a call gets instead of its answer.
        is_silent: watches report no change.
    """

    def __init__(self) -> None:
        self.api = ModelApiServer(lambda: NOON)
        self.api.changed = self._deliver
        self.calls: list[ListOrWatch] = []
        self.expires: Callable[[ListOrWatch], bool] = lambda call: False
        self.refuses: Callable[[ListOrWatch], int] = lambda call: 0
        self.is_silent = False

    def add(self, *job_names: str, namespace: str = "default", **labels: str) -> None:
        for name in job_names:
            body = {"metadata": {"name": name, "labels": labels}, "spec": dict(SPEC)}
            self.api.create((JOBS, namespace, ""), body)

    def label(self, name: str, **labels: str) -> None:
        self.api.patch((JOBS, "default", name), {"metadata": {"labels": labels}})

    @property
    def watches(self) -> list[ListOrWatch]:
        return [call for call in self.calls if call.is_watch]

    @property
    def lists(self) -> list[ListOrWatch]:
        """Those of kopf, which does not ask for one job."""
        return [call for call in self.calls if not call.is_watch and call.query["limit"] != "1"]

    def _deliver(self, entry: Entry) -> None:
        for watch in self.watches if not self.is_silent else []:
            watch.deliver(entry)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith(f"/{JOBS}"):
            _, _, scope = request.path.partition("/namespaces/")
            call = ListOrWatch(scope.partition("/")[0], dict(request.query))
            self.calls.append(call)
            if status := self.refuses(call):
                return web.json_response(make_error(status, "Refused"), status=status)
            if self.expires(call):
                return web.json_response(EXPIRED, status=410)
            if call.is_watch:
                return await self._watch(request, call)
        return web.json_response(self.api.request("GET", request.path_qs))

    async def _watch(self, request: web.Request, call: ListOrWatch) -> web.StreamResponse:
        for entry in self.api.log:
            if entry.version > int(call.query["resourceVersion"]):
                call.deliver(entry)
        response = web.StreamResponse()
        await response.prepare(request)
        while (event := await call.events.get()) is not None:  # or until the client or the server closes
            await response.write(json.dumps(event).encode() + b"\n")
        return response


@asynccontextmanager
async def serve_jobs(folder: Path) -> AsyncIterator[tuple[JobServer, Path]]:
    """The server, and a kubeconfig for it."""
    jobs = JobServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", jobs.handle)
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
