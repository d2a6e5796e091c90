"""Candidates for one Lease of the model's API server, which may be slow, lose requests or hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from railhead.controller.leadership import LEASE_NAME, Candidate, Elector, Timing
from railhead.kube.kinds import LEASE
from tests.model.api_server import ModelApiServer, Object
from tests.model.client import ModelClient
from tests.model.faults import NOON, Fault, Faults

PLACE = (LEASE.plural, "railhead-system", LEASE_NAME)
TIMING = Timing(15)
NEVER = (1e6, 0.0)


class SlowClient(ModelClient):
    """Each request takes some time to the API server and back. One that its sender cancels is executed nevertheless.

    Attributes:
        delay: these two times for the next request.
    """

    def __init__(self, api: ModelApiServer, faults: Faults, delay: Callable[[], tuple[float, float]]) -> None:
        super().__init__(api, faults)
        self.delay = delay

    async def _call(self, *args: Any, **options: Any) -> dict[str, Any]:
        there, back = self.delay()
        answer = asyncio.ensure_future(self._answer(there, partial(super()._call, *args, **options)))
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # the sender may be gone
        try:
            return await asyncio.shield(answer)
        finally:
            await asyncio.sleep(back)

    @staticmethod
    async def _answer(there: float, ask: Callable[[], Awaitable[Object]]) -> Object:
        await asyncio.sleep(there)
        return await ask()


class Election:
    """Use inside a `VirtualLoop`.

    Attributes:
        delay: the next request's times to the API server and back.
        cut_off: pods that cannot reach the API server.
    """

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self.api = ModelApiServer(lambda: NOON)
        self.faults = Faults()
        self.delay: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)
        self.cut_off: set[str] = set()
        self._running: dict[Elector, asyncio.Task[None]] = {}

    @property
    def now(self) -> float:
        return self._time()

    def slow_down(self, there: float, back: float) -> None:
        self.delay = lambda: (there, back)

    def serve_only(self, is_up: Callable[[float], bool]) -> None:
        """Requests at other times wait until the API server works again, to a hundredth of a second."""

        def delay() -> tuple[float, float]:
            wait = 0
            while not is_up(self.now + wait / 100):
                wait += 1
            return wait / 100, 0.0

        self.delay = delay

    def fail(self, *faults: Fault | None) -> None:
        """The fate of the next requests."""
        left = list(faults)
        self.faults.choose = lambda call: left.pop(0) if left else None

    @property
    def lease(self) -> Object:
        spec: Object = self.api.objects[PLACE]["spec"]
        return spec

    @property
    def holder(self) -> str | None:
        return self.lease.get("holderIdentity") if PLACE in self.api.objects else None

    def candidate(self, name: str, *, pod: str = "") -> Elector:
        return Elector(
            SlowClient(self.api, self.faults, lambda: NEVER if pod in self.cut_off else self.delay()),
            namespace="railhead-system",
            candidate=Candidate(f"{pod}{name}", predecessors=pod),
            timing=TIMING,
            monotonic=lambda: self.now,
        )

    def start(self, *electors: Elector) -> None:
        for elector in electors:
            self._running[elector] = asyncio.create_task(elector.run())

    async def kill(self, elector: Elector) -> None:
        task = self._running.pop(elector)
        task.cancel()
        await asyncio.wait([task])

    async def end(self) -> None:
        for elector in list(self._running):
            await self.kill(elector)

    async def watch(self, elector: Elector, seconds: float) -> float:
        """How many of the next seconds it leads, to a twentieth of a second."""
        led = 0
        for _ in range(round(seconds * 20)):
            await asyncio.sleep(0.05)
            led += elector.is_leading()
        return led / 20
