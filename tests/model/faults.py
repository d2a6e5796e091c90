"""What can go wrong with a request of the operator, and the client that makes it go wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from railhead.kube.client import KubeClient
from railhead.kube.clock import ServerClock
from railhead.kube.errors import KubeError, RetryAfter, classify_response
from railhead.kube.kinds import Kind
from tests.model.api_server import ModelApiServer
from tests.unit.kube.no_transport import NoTransport

CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER, NEVER_SENT = "crash before", "crash after", "lost answer", "never sent"
CODES = (403, 404, 409, 422, 429, 500, 503, 504)
FAULTS = (CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER, NEVER_SENT, *CODES)
Fault = str | int
WRITES = ("create", "patch/status", "patch", "delete")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests"}


class Crash(BaseException):
    """The operator is dead. No Exception, for nothing in it may catch its own end."""


@dataclass(frozen=True)
class Call:
    """One request: the number of the call, and whether it writes."""

    number: int
    verb: str
    plural: str

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES


@dataclass
class Faults:
    """Decides which call fails how; `yields` is how often a call lets others go first."""

    choose: Callable[[Call], Fault | None] = lambda call: None
    yields: Callable[[], int] = lambda: 0
    calls: int = 0
    writes: int = 0
    done: list[tuple[Call, Fault]] = field(default_factory=list)

    def next(self, verb: str, plural: str) -> Fault | None:
        is_write = verb in WRITES
        call = Call(self.writes if is_write else self.calls, verb, plural)
        self.calls += 1
        self.writes += is_write
        fault = self.choose(call)
        if fault is not None:
            self.done.append((call, fault))
        return fault


class ModelClient(KubeClient):
    """Speaks to the model in place of HTTP; after a crash it says no more."""

    def __init__(self, api: ModelApiServer, faults: Faults, *, wall: Callable[[], datetime]) -> None:
        super().__init__(NoTransport(), clock=ServerClock(lambda: (api.now() - NOON).total_seconds(), wall))
        self._server = api
        self._faults = faults
        self.is_dead = False

    async def _call(
        self,
        method: str,
        kind: Kind,
        path: str,
        *,
        verb: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> dict[str, Any]:
        for _ in range(self._faults.yields()):
            await asyncio.sleep(0)
        if self.is_dead:
            raise Crash
        fault = self._faults.next(verb, kind.plural)
        if fault in (CRASH_BEFORE, CRASH_AFTER):
            self.is_dead = True
        if fault == CRASH_BEFORE:
            raise Crash
        if fault == NEVER_SENT:
            raise RetryAfter(0, "NoAnswer", "ConnectionResetError")
        if isinstance(fault, int):
            raise refuse(fault)
        try:
            answer = self._server.request(method, path, body, content_type=content_type)
        except KubeError:
            if self.is_dead:
                raise Crash from None
            raise
        self.clock.learn(format_datetime(self._server.now(), usegmt=True))
        if fault == CRASH_AFTER:
            raise Crash
        if fault == LOST_ANSWER:
            raise RetryAfter(0, "NoAnswer", "TimeoutError")
        return answer


def refuse(code: int) -> KubeError:
    """An error that is no fault of the request."""
    reason = _REASONS.get(code, "InternalError")
    return classify_response(code, json.dumps({"reason": reason, "message": "injected"}).encode())
