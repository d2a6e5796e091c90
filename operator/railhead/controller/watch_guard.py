"""Finds watches that are dead: they deliver nothing, although the API server answers.

The watches notice silence and errors themselves, and connect again. This is for what they cannot notice: a watch that
hangs in this process, or a proxy that withholds what the API server sends. `/healthz` fails then, and the kubelet
restarts the operator, which begins with new lists.

A watch that the API server refuses is not dead, nor is any while the API server is away. A dead one has been silent in
so many looks in a row, the later ones with an answer of the API server each. So an outage counts from its end only, and
so does the time for which this process was paused.

A quiet watch may lack its bookmarks: the API server sends none that is older than the watch, and by default etcd tells
its progress every ten minutes only. Asking helps: for a consistent list the API server asks etcd for its progress (from
Kubernetes 1.31 on, `ConsistentListFromCache`), and the next bookmark comes a minute later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from railhead.kube.errors import KubeError
from railhead.kube.informer import WatchState
from railhead.kube.kinds import Kind

log = logging.getLogger(__name__)
PERIOD_SECONDS = 15.0
LATE_SECONDS = 75.0  # a bookmark comes each minute, plus up to 1.25 s; after this time the API server is asked
DEAD_SECONDS = 180.0
SILENT_LOOKS = round(DEAD_SECONDS / PERIOD_SECONDS)


class WatchGuard:
    """Looks at all watches every PERIOD_SECONDS."""

    def __init__(self, watches: Sequence[WatchState], ask: Callable[[Kind, str | None], Awaitable[None]]) -> None:
        """`ask` lists one object of that kind and namespace, and raises KubeError."""
        self._watches = watches
        self._ask = ask
        self._silent = {watch: (watch.delivered_at, 0) for watch in watches}  # since when, and in how many looks

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.look()

    async def look(self) -> None:
        for watch in self._watches:
            since, looks = self._silent[watch]
            now = watch.delivered_at
            is_silent = since == now and not watch.is_refused
            if is_silent and watch.age > LATE_SECONDS:
                is_silent = await self._is_answered(watch)
            self._silent[watch] = (now, looks + 1 if is_silent else 0)
            if is_silent and looks + 1 == SILENT_LOOKS:
                log.error("%s; /healthz fails until it does", _describe(watch))

    def find_problems(self) -> list[str]:
        """A sentence about each dead watch."""
        return [
            _describe(watch)
            for watch, (since, looks) in self._silent.items()
            if looks >= SILENT_LOOKS and since == watch.delivered_at
        ]

    async def _is_answered(self, watch: WatchState) -> bool:
        try:
            await self._ask(watch.kind, watch.namespace)
        except KubeError:
            return False
        return True


def _describe(watch: WatchState) -> str:
    return f"the watch of {watch.place} has delivered nothing for {watch.age:.0f} s, although the API server answers"
