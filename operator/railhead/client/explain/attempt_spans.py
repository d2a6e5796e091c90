"""The attempts of a job as stretches of time, with the cause of each gap between them: as a picture. Pure.

The status has when an attempt began, first trained and ended. The journal of the run adds when its worker group was
lost and trained again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from railhead.api import conditions as types
from railhead.api.attempts import Attempt
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.timeline import describe_end
from railhead.contract.times import parse_time
from railhead.history import Record

Kind = Literal["waiting", "starting", "training", "restarting", "gap", "end"]
LOSSES = ("restart", "lostPods")  # records of the journal after which the worker group starts again


@dataclass(frozen=True)
class Span:
    """A stretch of time.

    Attributes:
        attempt: 0 = before the first one that is known.
        kind: waiting for pods or a queue before the first attempt; starting; training; restarting in the same attempt;
            the gap between two attempts; or the end of a job that has failed, which takes no time.
        cause: what the stretch is for, or why it began; a phrase.
        is_open: whether it lasts; its end is the present then.
    """

    attempt: int
    kind: Kind
    begin: datetime
    end: datetime
    cause: str
    is_open: bool = False

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


def list_spans(snapshot: JobSnapshot, journal: Sequence[Record] = ()) -> list[Span]:
    """Returns the stretches, the oldest first; `journal`: the records of the run's journal, which may be empty."""
    status = snapshot.status
    attempts = status.attempts or []
    spans: list[Span] = []
    if attempts:
        first = parse_time(attempts[0].start_time)
        if snapshot.created_at and first and attempts[0].number == 1:
            spans += _make(0, "waiting", snapshot.created_at, first, "before the first attempt")
    elif snapshot.created_at and not status.is_finished:
        spans += _make(0, "waiting", snapshot.created_at, None, status.phase or "not seen", snapshot.now)
    for index, attempt in enumerate(attempts):
        spans += _of_attempt(attempt, snapshot, journal)
        following = attempts[index + 1] if index + 1 < len(attempts) else None
        spans += _gap_after(attempt, following, snapshot)
    if attempts and status.has_condition(types.FAILED):
        spans += _end(attempts[-1])
    return spans


def _of_attempt(attempt: Attempt, snapshot: JobSnapshot, journal: Sequence[Record]) -> Iterator[Span]:
    begin = parse_time(attempt.start_time)
    running = parse_time(attempt.running_time)
    end = parse_time(attempt.completion_time)
    if begin is None:
        return
    if running is None:
        cause = _describe_end(attempt) or "pods and Ray start"
        yield from _make(attempt.number, "starting", begin, end, cause, snapshot.now)
        return
    yield from _make(attempt.number, "starting", begin, running, "pods and Ray start")
    yield from _divide(attempt, running, end, snapshot, journal)


def _divide(
    attempt: Attempt, running: datetime, end: datetime | None, snapshot: JobSnapshot, journal: Sequence[Record]
) -> Iterator[Span]:
    """Yields training, and the restarts within the attempt that the journal knows."""
    at = running
    kind: Kind = "training"
    cause = ""
    for record in journal:
        when = parse_time(str(record["time"]))
        if record["attempt"] != attempt.number or when is None or when < at or (end is not None and when > end):
            continue
        if kind == "training" and record.get("event") in LOSSES:
            yield from _make(attempt.number, kind, at, when, cause)
            at = when
            kind = "restarting"
            cause = _describe_loss(record)
        elif kind == "restarting" and record.get("event") == "group":
            yield from _make(attempt.number, kind, at, when, cause)
            at = when
            kind = "training"
            cause = ""
    is_restarting = end is None and snapshot.status.phase == "Restarting"
    if kind == "training" and is_restarting:
        since = snapshot.status.true_since(types.RECONCILING)
        if since is not None and since > at:
            yield from _make(attempt.number, "training", at, since, "")
            reason = snapshot.status.reason_of(types.RECONCILING) or ""
            yield from _make(attempt.number, "restarting", since, None, reason, snapshot.now)
            return
    yield from _make(attempt.number, kind, at, end, cause or _describe_end(attempt), snapshot.now)


def _describe_loss(record: Record) -> str:
    pods = record.get("pods")
    if isinstance(pods, list):
        return f"lost {', '.join(map(str, pods))}"
    told = (record.get(key) for key in ("class", "reason", "message"))
    return " ".join(each for each in told if isinstance(each, str))


def _gap_after(attempt: Attempt, following: Attempt | None, snapshot: JobSnapshot) -> Iterator[Span]:
    end = parse_time(attempt.completion_time)
    if end is None:
        return
    if following is not None:
        until = parse_time(following.start_time)
        if until is not None:
            yield from _make(attempt.number, "gap", end, until, _describe_end(attempt))
    elif not snapshot.status.is_finished:
        yield from _make(attempt.number, "gap", end, None, _describe_end(attempt), snapshot.now)


def _end(attempt: Attempt) -> Iterator[Span]:
    end = parse_time(attempt.completion_time)
    if end is not None:
        yield Span(attempt.number, "end", end, end, _describe_end(attempt))


def _describe_end(attempt: Attempt) -> str:
    if not attempt.class_:
        return ""
    return describe_end(attempt)


def _make(
    attempt: int, kind: Kind, begin: datetime, end: datetime | None, cause: str, now: datetime | None = None
) -> Iterator[Span]:
    """Yields the span, none if it has no length; without an end it lasts until `now`."""
    until = end or now
    if until is not None and until > begin:
        yield Span(attempt, kind, begin, until, cause, is_open=end is None)
