"""The KubeClient of the model: it records requests, and injects faults on the way.

It overrides the one method of KubeClient that sends all requests except watches.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from railhead.kube import client as kube
from railhead.kube.client import KubeClient
from railhead.kube.clock import ServerClock
from railhead.kube.errors import KubeError, RetryAfter
from tests.model.api_server import ModelApiServer, Object
from tests.model.faults import CRASH_AFTER, CRASH_BEFORE, LOST_ANSWER, NEVER_SENT, NOON, Crash, Faults, refuse
from tests.unit.kube.no_transport import NoTransport


class Request(kube.Request):
    """A request, whose body is a copy that the sender cannot change any more."""

    body: Any

    @property
    def name(self) -> str:
        """The object's name, also in a create."""
        if self.verb == "create":
            return str(self.body["metadata"].get("name")) if "metadata" in self.body else ""
        return self.path.partition("?")[0].removesuffix("/status").removesuffix("/token").rsplit("/", 1)[-1]


class ModelClient(KubeClient):
    """Calls the model instead of HTTP; after a crash it sends nothing.

    Attributes:
        asked: every request, in order, failed ones included.
        taken: called with each request that the API server has answered, before the caller gets the answer.
        at_once, most_at_once: requests in flight.
    """

    def __init__(
        self, api: ModelApiServer, faults: Faults | None = None, *, wall: Callable[[], datetime] | None = None
    ) -> None:
        super().__init__(NoTransport(), clock=ServerClock(lambda: (api.now() - NOON).total_seconds(), wall or api.now))
        self.api = api
        self.faults = faults or Faults()
        self.is_dead = False
        self.asked: list[Request] = []
        self.taken: Callable[[Request], object] = lambda request: None
        self.at_once = 0
        self.most_at_once = 0

    def names(self, verb: str, plural: str = "") -> list[str]:
        return [r.name for r in self.asked if r.verb == verb and plural in ("", r.plural)]

    async def _call(self, request: kube.Request, *, page_size: int = 1) -> dict[str, Any]:
        body = json.loads(json.dumps(request.body)) if request.body else request.body
        request = Request(request.verb, request.plural, request.path, body, request.content_type, request.accept)
        self.asked.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            for _ in range(self.faults.yields()):
                await asyncio.sleep(0)
            return self._do(request)
        finally:
            self.at_once -= 1

    def _do(self, request: Request) -> dict[str, Any]:
        if self.is_dead:
            raise Crash
        fault = self.faults.next(request.verb, request.plural, request.name)
        if fault in (CRASH_BEFORE, CRASH_AFTER):
            self.is_dead = True
        if fault == CRASH_BEFORE:
            raise Crash
        if fault == NEVER_SENT:
            raise RetryAfter(0, "NoAnswer", "ConnectionResetError")
        if isinstance(fault, int):
            raise refuse(fault)
        if isinstance(fault, KubeError):
            raise fault
        try:
            answer = self.api.request(
                request.method,
                request.path,
                request.body,
                content_type=request.content_type,
                accept=request.accept,
            )
        except KubeError:
            if self.is_dead:
                raise Crash from None
            raise
        finally:
            self.taken(request)
        self.clock.observe(format_datetime(self.api.now(), usegmt=True))
        if fault == CRASH_AFTER:
            raise Crash
        if fault == LOST_ANSWER:
            raise RetryAfter(0, "NoAnswer", "TimeoutError")
        return answer


def make_client(*objects: Object) -> ModelClient:
    """A client of a server with these objects and a frozen clock."""
    api = ModelApiServer(lambda: NOON)
    for obj in objects:
        api.put(obj)
    return ModelClient(api)
