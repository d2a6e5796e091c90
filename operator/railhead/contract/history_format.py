"""The format of what a run keeps of its reports and of its driver's transitions: JSON lines in segments.

A segment is a file of one head pod, `<attempt>-<first 8 characters of the pod's uid>-<number from 1>.jsonl`, in
`.railhead/metrics` or `.railhead/journal` of the run's folder. Its first line is a `Header`, and each further line a
record: an object with `time` and `attempt`. A head may die while it writes a line; a reader skips what is no such line.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Dict, NamedTuple, Optional, Tuple

# A reader of this version understands segments of this one only.
FORMAT = 1
# kinds of segments, and their folders
METRICS = "metrics"
JOURNAL = "journal"
_NAME = re.compile(r"(\d{1,9})-([0-9a-f]{1,8})-(\d{1,9})\.jsonl")

Record = Dict[str, Any]  # one line's JSON


class SegmentName(NamedTuple):
    """Whose segment it is; the segments of a job in this order are in the order of time, as far as names tell.

    Attributes:
        attempt: from 1.
        pod: the first characters of the head pod's uid.
        number: from 1, of this kind and this head.
    """

    attempt: int
    pod: str
    number: int

    def __str__(self) -> str:
        return f"{self.attempt}-{self.pod}-{self.number}.jsonl"

    @staticmethod
    def parse(text: str) -> Optional[SegmentName]:
        """Returns None for the name of any other file."""
        found = _NAME.fullmatch(text)
        if found:
            return SegmentName(int(found[1]), found[2], int(found[3]))
        return None


@dataclass(frozen=True)
class Header:
    """The first line of a segment.

    Attributes:
        kind: METRICS or JOURNAL.
        job: uid of the TrainJob; several may continue one run, each from attempt 1.
        every: of this many records in a row the segment has one; a power of 2.
        dropped: records of this head that were lost before this segment began.
    """

    kind: str
    job: str
    every: int = 1
    dropped: int = 0

    def to_line(self) -> bytes:
        return write_line({"format": FORMAT, **asdict(self)})

    @staticmethod
    def parse(line: bytes) -> Optional[Header]:
        """Returns None for a line that is no header of this format."""
        values = read_line(line)
        if values is None or values.get("format") != FORMAT:
            return None
        kind = values.get("kind")
        job = values.get("job")
        every = values.get("every")
        dropped = values.get("dropped")
        if not isinstance(kind, str) or not isinstance(job, str):
            return None
        # `isinstance` would take True for a number.
        if type(every) is not int or type(dropped) is not int:
            return None
        return Header(kind, job, every, dropped)


@dataclass(frozen=True)
class Segment:
    """What a segment has.

    Attributes:
        header: None if the segment has none of this format; then it has no records either.
        skipped: lines that are no records.
    """

    header: Optional[Header]
    records: Tuple[Record, ...] = ()
    skipped: int = 0


def parse_segment(data: bytes) -> Segment:
    """Returns what is intact. Never raises."""
    first, *lines = data.split(b"\n")
    header = Header.parse(first)
    lines = [line for line in lines if line]
    if header is None:
        return Segment(None, skipped=len(lines) + bool(first))
    found = [values for values in map(read_line, lines) if values is not None and _is_record(values)]
    return Segment(header, tuple(found), len(lines) - len(found))


def write_line(values: Record) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def read_line(line: bytes) -> Optional[Record]:
    """Returns None for anything but a JSON object."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(values, dict):
        return values
    return None


def _is_record(values: Record) -> bool:
    return isinstance(values.get("time"), str) and type(values.get("attempt")) is int
