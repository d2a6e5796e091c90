"""What all jobs of a namespace share, such as the driver's ConfigMap: one request for it, however many jobs need it.

The ConfigMap is the largest body that the operator sends. If each of many new jobs sent it, or read it, the bodies of
all concurrent requests would be most of the operator's memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

from railhead.controller.expiring import Expiring

# A shared child that a user deletes by hand is missing for no longer than this.
RECENT_SECONDS = 2.0


class Place(NamedTuple):
    """Where a shared child is."""

    namespace: str
    name: str


class SharedChildren:
    """The uids of shared children that exist, each as of RECENT_SECONDS ago at most."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._recent = Expiring[Place, str](RECENT_SECONDS)
        self._requests: dict[Place, asyncio.Task[str]] = {}

    async def find(self, place: Place, make: Callable[[], Coroutine[Any, Any, str]]) -> str:
        """Returns the child's uid, and calls `make`, which finds or creates the child, unless it is known or another
        call is under way. Raises what that call raises."""
        uid = self._recent.get(place, self._monotonic())
        if uid is not None:
            return uid
        request = self._requests.get(place)
        if request is None:
            request = asyncio.create_task(make())
            self._requests[place] = request
            request.add_done_callback(partial(self._end, place))
        # A job whose pass is cancelled takes nothing from the others.
        return await asyncio.shield(request)

    def forget(self, place: Place) -> None:
        """Forgets a child that is being deleted: what a request that is under way finds is out of date."""
        self._recent.pop(place)
        self._requests.pop(place, None)

    def _end(self, place: Place, request: asyncio.Task[str]) -> None:
        is_current = self._requests.get(place) is request
        if is_current:
            del self._requests[place]
        if request.cancelled() or request.exception() is not None:
            return
        if is_current:
            self._recent.put(place, request.result(), self._monotonic())
