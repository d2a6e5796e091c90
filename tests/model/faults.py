"""Faults that can be injected into the operator's requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from railhead.kube.errors import KubeError, classify_response

CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER, NEVER_SENT = "crash before", "crash after", "lost answer", "never sent"
CODES = (403, 404, 409, 422, 429, 500, 503, 504)
FAULTS = (CRASH_BEFORE, CRASH_AFTER, LOST_ANSWER, NEVER_SENT, *CODES)
Fault = str | int | KubeError  # a KubeError is returned, and nothing is done
WRITES = ("create", "patch/status", "patch", "delete")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests"}


class Crash(BaseException):
    """The operator is dead. Not an Exception, so that no handler in it catches its own crash."""


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
    """Decides which call fails how.

    Attributes:
        choose: called for each call without an entry in `script`.
        yields: how often a call lets other tasks run first.
        script: faults of the next calls for an object, by verb and name; None = no fault.
    """

    choose: Callable[[Call], Fault | None] = lambda call: None
    yields: Callable[[], int] = lambda: 1
    script: dict[tuple[str, str], list[Fault | None]] = field(default_factory=dict)
    calls: int = 0
    written: list[Call] = field(default_factory=list)
    done: list[tuple[Call, Fault]] = field(default_factory=list)

    @property
    def writes(self) -> int:
        return len(self.written)

    def next(self, verb: str, plural: str, name: str) -> Fault | None:
        is_write = verb in WRITES
        call = Call(self.writes if is_write else self.calls, verb, plural)
        self.calls += 1
        if is_write:
            self.written.append(call)
        scripted = self.script.get((verb, name))
        fault = scripted.pop(0) if scripted else self.choose(call)
        if fault is not None:
            self.done.append((call, fault))
        return fault


def refuse(code: int) -> KubeError:
    """An error that is not the request's fault."""
    reason = _REASONS.get(code, "InternalError")
    return classify_response(code, json.dumps({"reason": reason, "message": "injected"}).encode())
