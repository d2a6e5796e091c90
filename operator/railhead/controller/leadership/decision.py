"""Decides what to do about the Lease as last observed. Pure: times are readings of a monotonic clock, in seconds.

Never compares the clocks of two machines. A candidate takes the Lease of a living holder only
after observing it unchanged for its whole leaseDurationSeconds; by then a leader that has not
renewed it for two thirds of that time has stopped planning. The remaining third covers requests
in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from railhead.api.base import Object

DEFAULT_LEASE_SECONDS = 15


@dataclass(frozen=True)
class Timing:
    """The times of an election, all derived from one number, in seconds."""

    lease_seconds: int = DEFAULT_LEASE_SECONDS

    @property
    def lead_seconds(self) -> float:
        """How long the holder may plan after a renewal."""
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


class Choice(Enum):
    """What a candidate does next."""

    MAKE = "there is no Lease"
    TAKE = "it is free, has expired, or is the candidate's own or its predecessor's"
    WAIT = "somebody holds it"


def read_lease(lease: Object, before: Sighting | None, *, now: float) -> Sighting:
    """The sighting of a Lease just read; a version seen before keeps its `since`."""
    spec, version = lease.get("spec") or {}, str(lease["metadata"]["resourceVersion"])
    is_same = before is not None and before.version == version
    return Sighting(
        holder=str(spec.get("holderIdentity") or ""),
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        version=version,
        since=before.since if before is not None and is_same else now,
        transitions=int(spec.get("leaseTransitions") or 0),
    )


def decide_lease(me: Candidate, seen: Sighting | None, *, now: float, timing: Timing) -> Choice:
    """What the candidate `me` does. A holder with a shorter lease than ours gets our duration."""
    if seen is None:
        return Choice.MAKE
    if seen.holder in ("", me.identity) or (me.predecessors and seen.holder.startswith(me.predecessors)):
        return Choice.TAKE
    return Choice.TAKE if now - seen.since > max(seen.seconds, timing.lease_seconds) else Choice.WAIT
