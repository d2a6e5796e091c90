"""Begins the next attempt once the backoff is over and nothing of the lost one can act any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from railhead.api import conditions as c
from railhead.api.status import FailureStatus
from railhead.planning.attempt import begin_next_attempt
from railhead.planning.backoff import next_attempt_at
from railhead.planning.classify import APPLICATION_BUDGET, NO_BUDGET, STARTUP
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, delete_all
from railhead.planning.pod_view import UNANSWERED_SECONDS, PodView
from railhead.planning.status_write import build_condition, build_status_write, parse_time

ENDING_SECONDS = 5  # from a container's end to its pod's
PATIENCE_SECONDS = 30  # for pods to end; longer needs a word


def decide_next_attempt(observed: Observed) -> Plan | None:
    """Waits, or raises the attempt and its counters in one write.

    The next attempt waits until no pod of the lost one may still run: never two heads. A pod whose node does
    not answer is waited for until its grace period is over and `UNANSWERED_SECONDS` more; if it is a head that
    lives on, the fence in the run's storage keeps it from committing.
    """
    failure = observed.status.failure
    if failure is None or not observed.is_attempt_lost:
        return None
    remains = observed.acting_pods
    at = next_attempt_at(observed, failure, committed=observed.has_committed)
    if remains:
        return _wait_for(observed, remains, since=parse_time(failure.time) or observed.now)
    if at > observed.now:
        return Plan(wake_at=at)
    again = observed.status.waiting is None or observed.status.waiting.again
    phase = "Restarting" if again else "Pending"
    restarts = _count(observed, failure)
    return begin_next_attempt(observed, reason="AttemptStarted", phase=phase, again=again, restarts=restarts)


def _count(observed: Observed, failure: FailureStatus) -> dict[str, int]:
    """status.restarts with the lost attempt."""
    restarts = observed.status.restarts
    is_counted = failure.class_ not in NO_BUDGET
    is_application = failure.class_ in APPLICATION_BUDGET
    return {
        "application": restarts.application + (is_counted and is_application),
        "infrastructure": restarts.infrastructure + (is_counted and not is_application),
        "withoutProgress": 0 if observed.has_committed else restarts.without_progress + is_counted,
        "startup": restarts.startup + (failure.class_ == STARTUP),
    }


def _wait_for(observed: Observed, remains: Sequence[PodView], *, since: datetime) -> Plan:
    """Deletes what remains, and says what it waits for."""
    since = min(since, observed.now)
    over_at, said_at = since + timedelta(seconds=ENDING_SECONDS), since + timedelta(seconds=PATIENCE_SECONDS)
    # A pod whose container has ended ends by itself, and is evidence.
    deletes = delete_all(p for p in remains if not p.has_ended or observed.now >= over_at)
    if observed.now < said_at:
        return Plan(deletes=deletes, wake_at=over_at if observed.now < over_at else said_at)
    if observed.status.reason_of(c.RECONCILING) == "WaitingForPods":
        return Plan(deletes=deletes)  # said already; which pods they are may change with every look
    pods = ", ".join(f"{p.name} on node {p.node or '(none)'}" for p in remains[:3])
    message = (
        f"Attempt {observed.attempt + 1} waits until {len(remains)} pods of attempt {observed.attempt} "
        f"have ended: {pods}; where a node does not answer at most {UNANSWERED_SECONDS} s longer than the grace period"
    )
    conditions = [build_condition(observed, c.RECONCILING, reason="WaitingForPods", message=message)]
    status = build_status_write(observed, conditions)
    return Plan(status=status, deletes=deletes, events=(Event("Warning", "WaitingForPods", message),))
