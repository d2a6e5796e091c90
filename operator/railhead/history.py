"""Reads what a run has kept of its reports and transitions, after its pods are gone: pure, without Ray.

The caller brings the files of a run's folder `.railhead/metrics` or `.railhead/journal`, from wherever they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railhead.contract.history import JOURNAL, METRICS, Record, SegmentName, parse_segment

__all__ = ["JOURNAL", "METRICS", "History", "Record", "read_history"]


@dataclass(frozen=True)
class History:
    """The records of one kind in the order of time: by attempt, and within an attempt as they were written.

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


def read_history(files: Mapping[str, bytes]) -> History:
    """Returns the records of these segments, by file name; other files are ignored. Never raises."""
    named = sorted((name, data) for text, data in files.items() if (name := SegmentName.parse(text)) is not None)
    segments = [(name, parse_segment(data)) for name, data in named]
    headers = [(name, segment.header) for name, segment in segments if segment.header is not None]
    dropped = {(name.attempt, name.pod): header.dropped for name, header in headers}  # a head's last header counts all
    return History(
        tuple(record for _, segment in segments for record in segment.records),
        sum(segment.skipped for _, segment in segments),
        sum(dropped.values()),
        max((header.every for _, header in headers), default=1),
    )
