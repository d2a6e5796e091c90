"""What to do about the Lease, from what was seen of it. Pure: times are numbers of a monotonic clock, in seconds.

Clocks of two machines are never compared. A candidate takes a Lease only when it has itself
seen it unchanged for as long as its holder asked for; a leader that has not renewed it for
two thirds of that time has stopped by then. The rest of the time covers requests on their way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from railhead.kube.types import Object

DEFAULT_LEASE_SECONDS = 15


@dataclass(frozen=True)
class Timing:
    """The times of an election, all from one number, in seconds."""

    lease_seconds: int = DEFAULT_LEASE_SECONDS

    @property
    def lead_seconds(self) -> float:
        """How long one renewal lets its holder plan."""
        return self.lease_seconds * 2 / 3

    @property
    def period_seconds(self) -> float:
        """Between two looks at the Lease, or renewals; so long may one request take, too."""
        return self.lease_seconds * 2 / 15


@dataclass(frozen=True)
class Sighting:
    """The Lease as it was last seen.

    Attributes:
        holder: whose it is; "" when it was given back.
        seconds: for how long its holder asked.
        version: its resourceVersion.
        since: when it was first seen in this version.
        transitions: how often it has gone from one holder to another.
    """

    holder: str
    seconds: float
    version: str
    since: float
    transitions: int = 0


class Choice(Enum):
    """What a candidate does next."""

    MAKE = "there is no Lease"
    TAKE = "it is free, or has run out, or is the candidate's own"
    WAIT = "somebody holds it"


def read_lease(lease: Object, before: Sighting | None, *, now: float) -> Sighting:
    """The sighting of a Lease that was just read; a version that was seen before keeps its time."""
    spec, version = lease.get("spec") or {}, str(lease["metadata"]["resourceVersion"])
    is_same = before is not None and before.version == version
    return Sighting(
        holder=str(spec.get("holderIdentity") or ""),
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        version=version,
        since=before.since if before is not None and is_same else now,
        transitions=int(spec.get("leaseTransitions") or 0),
    )


def decide_lease(me: str, seen: Sighting | None, *, now: float, timing: Timing) -> Choice:
    """What the candidate `me` does. Somebody who asked for less than usual is given the usual time."""
    if seen is None:
        return Choice.MAKE
    if seen.holder in ("", me):
        return Choice.TAKE
    return Choice.TAKE if now - seen.since > max(seen.seconds, timing.lease_seconds) else Choice.WAIT
