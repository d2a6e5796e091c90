"""Leader election: one of several operators plans at a time, by a Lease.

`may_take` is pure, and its times are readings of a monotonic clock, in seconds. It never compares the clocks of two
machines. A candidate takes the Lease of a living holder only after observing it unchanged for its whole
leaseDurationSeconds; by then a leader that has not renewed it for two thirds of that time has stopped planning. The
remaining third covers requests in flight.

kopf has no leader election, and the elector of the kubernetes package compares clocks of
different machines and does not release the Lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from railhead.json_object import Object
from railhead.kube.bodies import build_patch
from railhead.kube.client import KubeClient
from railhead.kube.clock import micro_now
from railhead.kube.errors import Denied, Gone, KubeError
from railhead.kube.kinds import LEASE
from railhead.resources.base import NO_METADATA, CommonMetadata, build_shared_metadata

log = logging.getLogger(__name__)
LEASE_NAME = "railhead-operator"
NEVER = float("-inf")
RELEASE_SECONDS = 3.0  # with the last passes and reports, less than a pod's 10 s to terminate
TEST_FAILED = 422
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Timing:
    """The times of an election, all derived from one number, in seconds."""

    lease_seconds: int

    @property
    def lead_seconds(self) -> float:
        """Returns how long the holder may plan after a renewal."""
        return self.lease_seconds * 2 / 3

    @property
    def period_seconds(self) -> float:
        """Between the beginnings of two reads or renewals of the Lease."""
        return self.lease_seconds * 2 / 15


@dataclass(frozen=True)
class Candidate:
    """One process that may hold the Lease.

    Attributes:
        identity: its name in the Lease, unique per process.
        predecessors: how the identities of dead processes begin: those of earlier starts of its container; "" = none
            is known to be dead.
    """

    identity: str
    predecessors: str = ""


@dataclass(frozen=True)
class Sighting:
    """The Lease as last observed.

    Attributes:
        holder: who holds it; "" when it was released.
        seconds: its leaseDurationSeconds.
        version: its resourceVersion.
        since: when this version was first observed.
        transitions: how often its holder has changed.
    """

    holder: str
    seconds: float
    version: str
    since: float
    transitions: int = 0


def read_lease(lease: Object, before: Sighting | None, *, now: float) -> Sighting:
    """Returns the sighting of a Lease just read; a version seen before keeps its `since`."""
    spec = lease.get("spec") or {}
    version = str(lease["metadata"]["resourceVersion"])
    is_same = before is not None and before.version == version
    return Sighting(
        holder=str(spec.get("holderIdentity") or ""),
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        version=version,
        since=before.since if before is not None and is_same else now,
        transitions=int(spec.get("leaseTransitions") or 0),
    )


def may_take(me: Candidate, seen: Sighting | None, *, now: float, timing: Timing) -> bool:
    """Returns whether the candidate `me` may make or take the Lease: there is none, it is free, has expired, or is the
    candidate's own or its predecessor's. A holder with a shorter lease than ours gets our duration."""
    if seen is None or seen.holder in ("", me.identity):
        return True
    is_predecessor = me.predecessors and seen.holder.startswith(me.predecessors)
    # The longer of both durations: a holder with a longer lease may still plan when ours would have expired.
    return bool(is_predecessor) or now - seen.since > max(seen.seconds, timing.lease_seconds)


class Leadership:
    """Whether this operator may plan: always, because leader election is off and this operator is the only one."""

    def is_leading(self) -> bool:
        return True

    async def run(self) -> None:
        """Runs until cancelled."""
        await asyncio.Event().wait()

    async def wait_lead(self) -> None:
        """Returns while this operator leads."""

    async def wait_loss(self) -> None:
        """Returns when this operator does not lead, or did not for a moment since the call."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Lets another operator lead. The last call."""


def make_candidate(pod_uid: str) -> Candidate:
    """Returns the host's name for readers, the pod's uid if it is known, and a uuid that makes it unique per
    process."""
    host = socket.gethostname()
    pod = f"{host}_{pod_uid}_" if pod_uid else ""
    return Candidate(f"{pod or f'{host}_'}{uuid.uuid4()}", predecessors=pod)


@dataclass(eq=False)
class Elector(Leadership):
    """One candidate for the Lease of one namespace, which may lose the lead at any time, and get it back.

    Renewals overlap: one begins each period and none waits for another, so that neither a slow API server nor one
    lost request ends a lead. Each tests only that this candidate still holds the Lease.
    """

    client: KubeClient
    namespace: str
    candidate: Candidate
    timing: Timing
    monotonic: Callable[[], float]
    common: CommonMetadata = NO_METADATA

    def __post_init__(self) -> None:
        self._seen: Sighting | None = None
        self._is_holder = False  # as far as known; the lead may have expired all the same
        self._lead_until = NEVER
        self._has_led = False
        self._turn = asyncio.Event()  # set when a lead begins, or ends before it expires

    def is_leading(self) -> bool:
        """Returns whether this process may plan right now; False after a pause longer than the lease allows."""
        return self.monotonic() < self._lead_until

    async def run(self) -> None:
        """Takes the Lease, renews it, and takes it again after a loss, until cancelled."""
        async with asyncio.TaskGroup() as steps:
            while True:
                # Not awaited: a renewal that hangs must not delay the next one.
                steps.create_task(self.step())
                await asyncio.sleep(self.timing.period_seconds)

    async def wait_lead(self) -> None:
        while not self.is_leading():
            self._turn.clear()
            await self._turn.wait()

    async def wait_loss(self) -> None:
        self._turn.clear()
        while self.is_leading() and not self._turn.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lead_until - self.monotonic()):
                    await self._turn.wait()
        log.warning("stopped leading: the Lease was not renewed in time, or another operator holds it")

    async def release(self) -> None:
        """Releases the Lease, so that the next leader need not wait for it to expire. The last call."""
        if not self._is_holder:
            return
        self._resign()
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._patch_as_holder({"holderIdentity": None})
        except (KubeError, TimeoutError) as error:
            log.warning("the Lease was not released: %s", str(error) or "request timed out")

    async def step(self) -> None:
        """Renews the Lease once, or reads it once and does what follows from it."""
        try:
            await (self._renew() if self._is_holder else self._apply())
        except (KubeError, TimeoutError) as error:
            log.warning("Lease %s/%s: %s", self.namespace, LEASE_NAME, str(error) or "request timed out")

    async def _renew(self) -> None:
        began = self.monotonic()
        try:
            await self._within_lead(self._patch_as_holder({"renewTime": micro_now()}))
        except (Gone, Denied) as error:
            # The Lease is another's, or may be.
            if isinstance(error, Gone) or error.status == TEST_FAILED:
                self._resign()
            raise
        # A process that is no holder any more has failed a later renewal already.
        if self._is_holder:
            self._lead(began)

    async def _apply(self) -> None:
        before = self._seen.holder if self._seen else None
        seen = self._seen = await self._within_lead(self._read())
        # A process that has led waits like any other: its predecessor cannot be what holds the Lease now.
        me = Candidate(self.candidate.identity) if self._has_led else self.candidate
        if not may_take(me, seen, now=self.monotonic(), timing=self.timing):
            if seen is not None and seen.holder != before:
                log.info("waiting for the Lease; the leader is %s", seen.holder)
            return
        began = self.monotonic()
        await self._within_lead(self._take(seen) if seen else self._make())
        self._is_holder = True
        self._lead(began)

    def _lead(self, began: float) -> None:
        """Leads from now on: a request that began at `began` has renewed or taken the Lease."""
        if not self.is_leading():
            log.info("leading as %s", self.candidate.identity)
            self._turn.set()
        self._has_led = True
        # Renewals overlap, and one that began earlier may be answered later.
        self._lead_until = max(self._lead_until, began + self.timing.lead_seconds)

    def _resign(self) -> None:
        self._is_holder = False
        self._lead_until = NEVER
        self._turn.set()

    async def _within_lead(self, request: Awaitable[Answer]) -> Answer:
        """Waits for an answer. One that takes longer than a lead renews none."""
        async with asyncio.timeout(self.timing.lead_seconds):
            return await request

    async def _read(self) -> Sighting | None:
        try:
            lease = await self.client.get(LEASE, LEASE_NAME, namespace=self.namespace)
        except Gone:
            return None
        return read_lease(lease, self._seen, now=self.monotonic())

    async def _make(self) -> Object:
        metadata = build_shared_metadata(self.namespace, LEASE_NAME, self.common)
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": self._spec(None)}
        return await self.client.create(LEASE, body, namespace=self.namespace)

    async def _take(self, seen: Sighting) -> Object:
        """Takes the Lease by compare-and-set: it must still have the observed resourceVersion."""
        body = {"metadata": {"resourceVersion": seen.version}, "spec": self._spec(seen)}
        return await self.client.patch(LEASE, LEASE_NAME, body, namespace=self.namespace)

    async def _patch_as_holder(self, fields: Mapping[str, str | None]) -> Object:
        """Changes the Lease by compare-and-set: it must still name this process. Another version of it does no harm."""
        body = build_patch({"/spec/holderIdentity": self.candidate.identity}, fields, under="/spec")
        return await self.client.patch(LEASE, LEASE_NAME, body, namespace=self.namespace)

    def _spec(self, seen: Sighting | None) -> Object:
        """Returns the Lease's spec. Its times are informational; no decision uses them."""
        now = micro_now()
        is_again = seen is not None and seen.holder == self.candidate.identity
        return {
            "holderIdentity": self.candidate.identity,
            "leaseDurationSeconds": self.timing.lease_seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": seen.transitions + (not is_again) if seen else 0,
        }
