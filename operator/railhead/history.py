"""Reads what a run has kept of its reports and transitions, after its pods are gone: pure, without Ray.

The caller brings the files of a run's folder `.railhead/metrics` or `.railhead/journal`, from wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from railhead.contract.history_format import JOURNAL, METRICS, Header, Record, SegmentName, parse_segment

__all__ = ["JOURNAL", "METRICS", "History", "Record", "read_history"]


@dataclass(frozen=True)
class History:
    """The records of one kind in the order of time: by job and attempt, and then as they were written.

    Attributes:
        skipped: lines that could not be read, such as one that was being written when its head died, and all lines
            of segments in another format.
        dropped: records that heads could not keep, because the storage did not take them.
        every: 1 if nothing was thinned out; else the oldest records are at least one of this many in a row.
    """

    records: tuple[Record, ...] = ()
    skipped: int = 0
    dropped: int = 0
    every: int = 1


class _Part(NamedTuple):
    """One segment that can be read."""

    name: SegmentName
    header: Header
    records: tuple[Record, ...]

    def get_head(self) -> tuple[str, int, str]:
        return self.header.job, self.name.attempt, self.name.pod


def read_history(files: Mapping[str, bytes], *, job: str | Collection[str] = "") -> History:
    """Returns the records of these segments, by file name; other files are ignored. Never raises.

    `job`: uid of the TrainJob, if only its records are wanted: another one may have continued the run. Several of a job
    that was restored from a backup.
    """
    wanted = {job} if isinstance(job, str) else set(job)
    parts = []
    skipped = 0
    for text, data in files.items():
        name = SegmentName.parse(text)
        segment = parse_segment(data)
        if name is None or (segment.header is not None and wanted.isdisjoint(("", segment.header.job))):
            continue
        skipped += segment.skipped
        if segment.header is not None:
            parts.append(_Part(name, segment.header, segment.records))
    ordered = _order(parts)
    # The last header of a head counts all that it has dropped.
    dropped = {part.get_head(): part.header.dropped for part in ordered}
    every = max((part.header.every for part in parts), default=1)
    return History(tuple(record for part in ordered for record in part.records), skipped, sum(dropped.values()), every)


def _order(parts: list[_Part]) -> list[_Part]:
    """Attempts are counted; the clocks of heads order only jobs, and heads of one attempt."""
    jobs = _read_begins(parts, attrgetter("header.job"))
    heads = _read_begins(parts, _Part.get_head)

    def rank(part: _Part) -> tuple[str, int, str, int]:
        job = jobs.get(part.header.job, "")
        return job, part.name.attempt, heads.get(part.get_head(), ""), part.name.number

    return sorted(parts, key=rank)


def _read_begins(parts: Iterable[_Part], find_owner: Callable[[_Part], Hashable]) -> dict[Hashable, str]:
    """Returns the time of the first record of each job or head."""
    begins: dict[Hashable, str] = {}
    for part in parts:
        for record in part.records[:1]:
            owner = find_owner(part)
            time = str(record["time"])
            begins[owner] = min(begins.get(owner, time), time)
    return begins
