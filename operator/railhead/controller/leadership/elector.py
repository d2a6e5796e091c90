"""Holds the Lease, or waits for it: the requests and the clock around `decide_lease`.

kopf has no leader election, and the elector of the kubernetes package compares clocks of
different machines and does not release the Lease.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from railhead.controller.leadership.decision import Choice, Sighting, Timing, decide_lease, read_lease
from railhead.kube.client import KubeClient
from railhead.kube.clock import format_micro_time
from railhead.kube.errors import Gone, KubeError
from railhead.kube.kinds import LEASE
from railhead.kube.types import Object

log = logging.getLogger(__name__)
LEASE_NAME = "railhead-operator"
NEVER = float("-inf")


class LostLease(Exception):
    """This operator is no longer the leader; the message says why. It exits, and Kubernetes restarts it."""


class Leadership(Protocol):
    """Whether this operator may plan."""

    def is_leading(self) -> bool: ...
    async def acquire(self) -> None: ...
    async def keep(self) -> None: ...
    async def release(self) -> None: ...


class Alone:
    """Always leads: leader election is off, this operator is the only one."""

    def is_leading(self) -> bool:
        return True

    async def acquire(self) -> None:
        return None

    async def keep(self) -> None:
        await asyncio.Event().wait()

    async def release(self) -> None:
        return None


def make_identity() -> str:
    """The pod's name for readers, and a uuid that makes it unique per process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Elector:
    """One candidate for the Lease of one namespace."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        identity: str,
        timing: Timing,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._me = identity
        self._timing = timing
        self._monotonic = monotonic
        self._sleep = sleep
        self._seen: Sighting | None = None
        self._is_sure = False
        self._lead_until = NEVER

    def is_leading(self) -> bool:
        """Whether this process may plan right now; False after a pause longer than the lease allows."""
        return self._monotonic() < self._lead_until

    async def acquire(self) -> None:
        """Returns once this operator holds the Lease."""
        logged = ""
        while True:
            await self.step()
            if self.is_leading():
                log.info("leading as %s", self._me)
                return
            if self._seen is not None and self._seen.holder != logged:
                logged = self._seen.holder
                log.info("waiting for the Lease; the leader is %s", logged or "nobody")
            await self._sleep(self._timing.period_seconds)

    async def keep(self) -> None:
        """Renews until it cannot. Raises LostLease."""
        while True:
            await self._sleep(self._timing.period_seconds)
            if not self.is_leading():
                raise LostLease("the Lease was not renewed in time; this operator exits and must be restarted")
            await self.step()

    async def release(self) -> None:
        """Releases the Lease, so that the next leader need not wait for it to expire."""
        if not self.is_leading() or not self._is_sure:
            return
        self._lead_until = NEVER
        try:
            async with asyncio.timeout(self._timing.period_seconds):
                await self._write("")
        except (KubeError, TimeoutError) as error:
            log.warning("the Lease was not released: %s", error or "request timed out")

    async def step(self) -> None:
        """One read or renewal. After a failed request, reads the Lease again before the next write."""
        try:
            async with asyncio.timeout(self._timing.period_seconds):
                await self._request()
        except (KubeError, TimeoutError) as error:
            self._is_sure = False
            log.warning("Lease %s/%s: %s", self._namespace, LEASE_NAME, str(error) or "request timed out")
            if isinstance(error, Gone):  # deleted, and another candidate may have created it again already
                self._lead_until = NEVER

    async def _request(self) -> None:
        began = self._monotonic()
        if not self._is_sure:
            self._seen = await self._read()
        choice = decide_lease(self._me, self._seen, now=self._monotonic(), timing=self._timing)
        if choice is Choice.WAIT:
            self._lead_until = NEVER
            return
        self._is_sure = False  # until the response arrives
        answer = await (self._make() if choice is Choice.MAKE else self._write(self._me))
        self._seen = read_lease(answer, None, now=began)
        self._is_sure = True
        self._lead_until = began + self._timing.lead_seconds

    async def _read(self) -> Sighting | None:
        try:
            lease = await self._client.get(LEASE, LEASE_NAME, namespace=self._namespace)
        except Gone:
            return None
        return read_lease(lease, self._seen, now=self._monotonic())

    async def _make(self) -> Object:
        metadata = {"name": LEASE_NAME, "namespace": self._namespace, "labels": {"app.kubernetes.io/name": "railhead"}}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": self._spec(self._me)}
        return await self._client.create(LEASE, body, namespace=self._namespace)

    async def _write(self, holder: str) -> Object:
        """Compare-and-set: the Lease must still have the observed resourceVersion."""
        assert self._seen is not None
        body = {"metadata": {"resourceVersion": self._seen.version}, "spec": self._spec(holder)}
        return await self._client.patch(LEASE, LEASE_NAME, body, type_="merge", namespace=self._namespace)

    def _spec(self, holder: str) -> Object:
        """The times are informational; no decision uses them."""
        now = format_micro_time(datetime.now(UTC))
        spec: Object = {"holderIdentity": holder or None, "renewTime": now}
        if holder and (self._seen is None or self._seen.holder != holder):
            spec["leaseDurationSeconds"] = self._timing.lease_seconds
            spec["acquireTime"] = now
            spec["leaseTransitions"] = self._seen.transitions + 1 if self._seen else 0
        return spec
