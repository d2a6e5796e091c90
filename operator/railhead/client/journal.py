"""The moments of a job's timeline that its run's journal has. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from railhead.client.curves import describe_gaps
from railhead.client.timeline import Moment
from railhead.history import History, Record

COMMON = frozenset({"time", "attempt", "event"})
NAMES = {
    "state": "State",
    "resume": "Resumed",
    "group": "WorkerGroup",
    "checkpoint": "Checkpoint",
    "lostPods": "LostPods",
    "restart": "Restart",
    "failure": "Failure",
    "warning": "Warning",
    "warningEnded": "WarningEnded",
    "hang": "Hang",
    "notice": "EndNotice",
    "end": "AttemptEnded",
}


def read_moments(journal: History) -> Iterator[Moment]:
    """Yields the moments, and first a gap for each reason why some are missing."""
    begin = str(journal.records[0]["time"]) if journal.records else ""
    for gap in describe_gaps(journal, "the journal"):
        yield Moment(begin, "Gap", gap, "gap")
    for record in journal.records:
        event = str(record.get("event"))
        yield Moment(str(record["time"]), NAMES.get(event, event), _describe(record), "journal")


def _describe(record: Record) -> str:
    fields = {key: value for key, value in record.items() if key not in COMMON and value not in (None, "")}
    return ", ".join([f"attempt {record['attempt']}", *(f"{key} {_write(value)}" for key, value in fields.items())])


def _write(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
