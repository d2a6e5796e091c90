"""A `KubeClient` whose one method that sends is replaced by a script: what was asked is kept, in order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError
from railhead.kube.kinds import Kind
from tests.unit.kube.no_transport import NoTransport

Answer = dict[str, Any] | KubeError


@dataclass(frozen=True)
class Request:
    """What was asked: `verb` as the client counts it, the path and the body."""

    verb: str
    plural: str
    path: str
    body: Any = None

    @property
    def name(self) -> str:
        """Of the object, also while it is created."""
        if isinstance(self.body, dict) and "metadata" in self.body:
            return str(self.body["metadata"].get("name"))
        return self.path.partition("?")[0].removesuffix("/status").rsplit("/", 1)[-1]


class FakeClient(KubeClient):
    """Answers from `script[verb, name]`, one after the other; without one, a create or patch is granted."""

    def __init__(self, script: dict[tuple[str, str], list[Answer]] | None = None) -> None:
        super().__init__(NoTransport())
        self.script = script or {}
        self.asked: list[Request] = []
        self.at_once = 0
        self.most_at_once = 0

    def names(self, verb: str, plural: str = "") -> list[str]:
        return [r.name for r in self.asked if r.verb == verb and plural in ("", r.plural)]

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
        request = Request(verb, kind.plural, path, body)
        self.asked.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)  # as with a real one, others get their turn
            scripted = self.script.get((verb, request.name))
            answer: Answer = scripted.pop(0) if scripted else self._grant(request)
        finally:
            self.at_once -= 1
        if isinstance(answer, KubeError):
            raise answer
        return answer

    @staticmethod
    def _grant(request: Request) -> dict[str, Any]:
        if request.verb == "create":
            metadata = {**request.body["metadata"], "uid": f"uid-{request.name}", "resourceVersion": "10"}
            return {**request.body, "metadata": metadata}
        return {"kind": "Status", "status": "Success"}
