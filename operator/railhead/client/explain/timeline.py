"""What happened to a job, in order: from status.attempts, the conditions, the events that still exist, and the journal
of the run. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from railhead.api import conditions as types
from railhead.api.attempts import Attempt
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.run.curves import describe_gaps
from railhead.contract.times import format_time
from railhead.history import History, Record

EVENT_LIFE = timedelta(hours=1)  # the API server's default --event-ttl
COMMON = frozenset({"time", "attempt", "event"})  # fields of each record of the journal
# The events of the journal whose moment has another name than the event in CamelCase.
JOURNAL_NAMES = {"resume": "Resumed", "group": "WorkerGroup", "notice": "EndNotice", "end": "AttemptEnded"}
IN_ATTEMPTS = frozenset({"AttemptStarted"})  # events that a line of an attempt repeats


@dataclass(frozen=True)
class Moment:
    """One line of the timeline.

    Attributes:
        time: RFC 3339; "" = not known.
        what: a word.
        details: the rest of the line.
        source: status, condition, event, journal or gap.
    """

    time: str
    what: str
    details: str
    source: str


def build_timeline(snapshot: JobSnapshot, journal: Iterable[Moment] = ()) -> list[Moment]:
    """Returns what is known, the oldest first, with a line for each stretch about which nothing is known any more.

    `journal`: the moments that the run's own journal has.
    """
    found: list[Moment] = []
    for list_moments in (_gaps, _job, _attempts, _checkpoint, _conditions, _events):
        found.extend(list_moments(snapshot))
    found.extend(journal)
    return sort_moments(found)


def sort_moments(moments: Iterable[Moment]) -> list[Moment]:
    """Returns the moments, the oldest first; those of the same time stay in their order."""

    def read_time(moment: Moment) -> str:
        # "...:07" comes before "...:07.123".
        return moment.time.rstrip("Z")

    return sorted(moments, key=read_time)


def _job(snapshot: JobSnapshot) -> Iterator[Moment]:
    if snapshot.created_at is not None:
        yield Moment(format_time(snapshot.created_at), "Created", "", "status")
    status = snapshot.status
    if status.completion_time:
        failure = status.failure
        details = ""
        if failure and status.has_condition(types.FAILED):
            details = f"{failure.reason} ({failure.class_})"
        yield Moment(status.completion_time, status.phase or "Ended", details, "status")


def _attempts(snapshot: JobSnapshot) -> Iterator[Moment]:
    for attempt in snapshot.status.attempts or []:
        name = f"attempt {attempt.number}"
        if attempt.start_time:
            yield Moment(attempt.start_time, "AttemptStarted", name, "status")
        if attempt.running_time:
            yield Moment(attempt.running_time, "Training", f"{name} trains for the first time", "status")
        if attempt.completion_time:
            yield Moment(attempt.completion_time, "AttemptEnded", f"{name}: {describe_end(attempt)}", "status")


def describe_end(attempt: Attempt) -> str:
    """Returns how an attempt ended, in a phrase; "lasts" while it does."""
    if not attempt.class_:
        return "lasts"
    reason = ""
    if attempt.reason and attempt.reason != attempt.class_:
        reason = f" {attempt.reason}"
    node = f" on {attempt.node}" if attempt.node else ""
    rounds = f", rounds {attempt.rounds}" if attempt.rounds else ""
    return f"{attempt.class_}{reason}{node}{rounds}"


def _checkpoint(snapshot: JobSnapshot) -> Iterator[Moment]:
    newest = snapshot.status.checkpoint
    if newest is not None and newest.time:
        yield Moment(newest.time, "Checkpoint", f"{newest.index}: {newest.uri}", "status")


def _conditions(snapshot: JobSnapshot) -> Iterator[Moment]:
    """Yields when each condition got its present status; the rest of its history is in events only."""
    for each in snapshot.status.conditions:
        is_news = each.is_true or each.type not in types.ALWAYS_PRESENT
        if is_news and each.last_transition_time:
            yield Moment(each.last_transition_time, each.type, f"{each.status}: {each.reason}", "condition")


def _events(snapshot: JobSnapshot) -> Iterator[Moment]:
    for event in snapshot.events:
        if event.at is not None and event.reason not in IN_ATTEMPTS:
            times = f" ({event.count} times)" if event.count > 1 else ""
            yield Moment(format_time(event.at), event.reason, event.message + times, "event")


def _gaps(snapshot: JobSnapshot) -> Iterator[Moment]:
    """Yields what the timeline cannot show: earlier attempts, and the time before the oldest event that exists."""
    attempts = snapshot.status.attempts or []
    start = snapshot.created_at
    if attempts and attempts[0].number > 1:
        missing = f"attempts 1 to {attempts[0].number - 1} are not in the status any more"
        yield Moment(attempts[0].start_time or "", "Gap", missing, "gap")
    first = next((event.at for event in snapshot.events if event.at is not None), None)
    expired_until = first or snapshot.now
    if start is not None and expired_until - start > EVENT_LIFE:
        details = "no events are known"
        if first:
            details = "earlier events are not known any more"
        yield Moment(format_time(expired_until), "Gap", details, "gap")


def read_moments(journal: History) -> Iterator[Moment]:
    """Yields the moments of the journal, and first a gap for each reason why some are missing."""
    begin = str(journal.records[0]["time"]) if journal.records else ""
    for gap in describe_gaps(journal, "the journal"):
        yield Moment(begin, "Gap", gap, "gap")
    yield from describe_records(journal.records)


def describe_records(records: Iterable[Record]) -> Iterator[Moment]:
    """Yields the moments of records of the journal."""
    for record in records:
        event = str(record.get("event"))
        name = JOURNAL_NAMES.get(event, event[:1].upper() + event[1:])
        yield Moment(str(record["time"]), name, _describe(record), "journal")


def _describe(record: Record) -> str:
    fields = {key: value for key, value in record.items() if key not in COMMON and value not in (None, "")}
    texts = (f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in fields.items())
    return ", ".join([f"attempt {record['attempt']}", *texts])
