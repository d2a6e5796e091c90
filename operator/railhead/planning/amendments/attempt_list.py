"""Keeps status.attempts: the last attempts of the job, and how each ended.

The list joins status writes that happen anyway. It follows from the status as the write leaves it. So a list that lacks
something, since another version of the operator wrote the status or a user edited it, is completed by the next write,
or starts with the current attempt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.api import conditions as types
from railhead.api.attempts import MAX_ATTEMPTS, MAX_NODE, MAX_REASON, PLAIN, Attempt
from railhead.api.status import JobStatus, replace_status
from railhead.contract.numbers import MAX_INT32
from railhead.contract.times import format_time, parse_time
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.wanted_status import changes_anything

MOST = MAX_INT32


def list_attempts(job: Job, decision: Decision) -> Decision:
    """Brings the list up to date if the decision writes the status."""
    wanted = decision.wanted
    old = job.status
    if wanted is None or wanted.is_guard:
        return decision
    new = wanted.status
    if new.attempt == old.attempt:
        attempts = _update(job, new)
    elif new.is_resting:
        attempts = _skip(job, new)
    else:
        attempts = _begin(job, new.attempt, _update(job, old))
    # The list joins a write that happens anyway, and is never the reason for one.
    if (attempts or None) == old.attempts or not changes_anything(job, wanted):
        return decision
    return decision.with_status(replace_status(new, attempts=attempts or None))


def _begin(job: Job, number: int, known: Sequence[Attempt]) -> list[Attempt]:
    begun = Attempt(number=number, generation=job.generation, start_time=format_time(job.now))
    return _append(begun, known)


def _skip(job: Job, new: JobStatus) -> list[Attempt]:
    """Returns the list of a restored job that began attempts before its status was there.

    None of these attempts continues, nor does the one that the status shows.
    """
    first = job.status.attempt + 1
    last = min(new.attempt, MOST)
    known = _update(job, replace_status(new, attempt=job.status.attempt, round=job.status.round))
    for number in range(max(first, last - MAX_ATTEMPTS), last + 1):
        now = format_time(job.now)
        skipped = Attempt(number=number, generation=job.generation, start_time=now)
        known = _append(_end(job, skipped, "Suspended", at=now), known)
    return known


def _update(job: Job, status: JobStatus) -> list[Attempt]:
    """Returns the list with the current attempt as this status shows it."""
    known = list(job.status.attempts or ())
    # A user may have written any number into a status.
    if not 1 <= status.attempt <= MOST:
        return []
    is_listed = bool(known) and known[-1].number == status.attempt
    current = known.pop() if is_listed else Attempt(number=status.attempt)
    if not current.completion_time:
        current = _describe(job, current, status)
    return _append(current, known)


def _append(attempt: Attempt, known: Sequence[Attempt]) -> list[Attempt]:
    """Appends to the attempt before it, if that is the last one and has ended; else begins a new list."""
    if not known:
        return [attempt]
    last = known[-1]
    is_next = last.number == attempt.number - 1 and last.completion_time is not None
    if not is_next:
        return [attempt]
    return [*known, attempt][-MAX_ATTEMPTS:]


def _describe(job: Job, attempt: Attempt, status: JobStatus) -> Attempt:
    """Completes an attempt that had not ended, with its end if the status shows one."""
    running = attempt.running_time
    if running is None and "Running" in (job.status.phase, status.phase):
        running = format_time(job.status.true_since(types.RUNNING) or job.now)
    attempt = attempt.model_copy(update={"running_time": running, "rounds": min(max(status.round, 0), MOST)})
    failure = status.failure
    if failure is not None and failure.attempt == attempt.number:
        return _end(
            job,
            attempt,
            failure.class_.value,
            at=failure.time,
            reason=failure.reason,
            node=failure.suspect_node or failure.node,
        )
    if status.phase == "Succeeded":
        return _end(job, attempt, status.phase, at=status.completion_time)
    if status.is_resting:
        since = job.status.true_since(types.SUSPENDED)
        return _end(job, attempt, "Suspended", at=format_time(since) if since else None)
    return attempt


def _end(job: Job, attempt: Attempt, class_: str, *, at: str | None, reason: str = "", node: str = "") -> Attempt:
    """Returns the attempt with its end."""
    end = format_time(parse_time(at) or job.now)
    return attempt.model_copy(
        update={
            # Never before it began: `at` may be by the clock of the head's node.
            "completion_time": max(end, attempt.start_time or "", attempt.running_time or ""),
            "class_": class_,
            "reason": _keep_plain(reason)[:MAX_REASON],
            "node": _keep_plain(node)[:MAX_NODE],
        }
    )


def _keep_plain(text: str) -> str:
    return re.sub(f"[^{PLAIN}]", "", text)
