"""Begins the next attempt once the backoff is over and nothing of the lost one can act any more."""

from __future__ import annotations

from railhead.planning.attempt import begin_attempt
from railhead.planning.backoff import next_attempt_at
from railhead.planning.classify import APPLICATION_BUDGET
from railhead.planning.observed import Observed
from railhead.planning.plan import Delete, Event, Plan


def decide_next_attempt(observed: Observed) -> Plan | None:
    """Waits, or raises the attempt and its counters in one write.

    The next attempt waits until no pod of the lost one may still run: never two heads.
    """
    failure = observed.status.failure
    if failure is None or not observed.is_attempt_lost:
        return None
    remains = [p for p in observed.pods if not p.is_over]
    at = next_attempt_at(observed, failure, committed=observed.has_committed)
    if remains:
        return Plan(deletes=tuple(Delete(p.name, p.uid) for p in remains if not p.is_deleting))
    if at > observed.now:
        return Plan(wake_at=at)
    restarts = observed.status.restarts
    is_application = failure.class_ in APPLICATION_BUDGET
    counted = {
        "application": restarts.application + (1 if is_application else 0),
        "infrastructure": restarts.infrastructure + (0 if is_application else 1),
        "withoutProgress": 0 if observed.has_committed else restarts.without_progress + 1,
    }
    attempt = observed.attempt + 1
    resume = f" from checkpoint {observed.status.checkpoint.index}" if observed.status.checkpoint else ""
    event = Event("Normal", "AttemptStarted", f"Starting attempt {attempt}{resume}")
    plan = begin_attempt(observed, attempt=attempt, event=event, restarts=counted)
    ended = tuple(Delete(p.name, p.uid) for p in observed.pods if not p.is_deleting)
    return Plan(status=plan.status, creates=plan.creates, deletes=ended, events=plan.events)
