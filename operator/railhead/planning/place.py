"""One job's place in the start line of its namespace, read from its status."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from railhead.api.status import JobStatus
from railhead.contract.times import parse_time


@dataclass(frozen=True)
class Place:
    """Where a job is.

    Attributes:
        percent: what it needs of the quota, in percent of its limit; 0 = not known.
        since: the earliest is first; one in the future has not come yet.
        turn_since: since when it is the job's turn.
    """

    name: str
    uid: str
    quota: str
    percent: int
    since: datetime
    turn_since: datetime | None


def find_place(name: str, uid: str, status: JobStatus) -> Place | None:
    """None for a job that is in no line."""
    line = status.start_line
    since = parse_time(line.since) if line is not None else None
    if line is None or since is None or status.is_finished or status.phase == "Suspended":
        return None
    return Place(name, uid, line.quota, line.percent, since, parse_time(line.turn_time))
