"""The limits that a user has set: of the whole job, of its start, and of a restart. All by the API server's clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from railhead.api import conditions as c
from railhead.api.names import HEAD
from railhead.api.status import FailureStatus
from railhead.planning.classify import DEADLINE, STARTUP
from railhead.planning.clean_up import clean_up_due
from railhead.planning.loss import fail_job, lose_attempt
from railhead.planning.observed import Observed
from railhead.planning.plan import Plan, delete_all
from railhead.planning.pod_view import PodView
from railhead.planning.status_write import format_time, parse_time

AWAITED = ("Pending", "Starting", "Restarting")  # phases in which training is


def decide_active_deadline(observed: Observed) -> Plan | None:
    """Is the time of the whole job over? Then it fails; its head is told first, as when it is suspended."""
    due = active_due(observed)
    if due is None or due > observed.now:
        return None
    if observed.head is not None and observed.head.has_succeeded:
        return None  # it has finished in time
    limit = observed.spec.active_deadline_seconds if observed.spec else 0
    message = f"The job was active for {limit} s (spec.activeDeadlineSeconds) and had not finished"
    failure = build_failure(observed, kind=DEADLINE, reason="ActiveDeadlineExceeded", message=message)
    plan = fail_job(observed, failure)
    return replace(plan, deletes=delete_all(p for p in observed.pods if p.role == HEAD and p.is_live))


def decide_startup_deadline(observed: Observed) -> Plan | None:
    """Has training been awaited for too long? Then all pods are given back, and the next attempt backs off."""
    due = startup_due(observed)
    if due is None or due > observed.now:
        return None
    waiting = observed.status.waiting
    field = "restartDeadlineSeconds" if waiting and waiting.again else "startDeadlineSeconds"
    found = observed.startup_problem
    why = f": pod {found[0].name} cannot start ({found[1].reason}: {found[1].message[:600]})" if found else ""
    message = f"Training did not run within spec.{field}{why}"
    reason = field[0].upper() + field.removesuffix("Seconds")[1:] + "Exceeded"
    failure = build_failure(observed, kind=STARTUP, reason=reason, message=message, pod=found[0] if found else None)
    return lose_attempt(observed, failure, head=observed.head)


def next_due(observed: Observed) -> datetime | None:
    """When a limit is to be looked at again."""
    if observed.status.is_finished:
        dues: tuple[datetime | None, ...] = (clean_up_due(observed),)
    else:
        dues = (active_due(observed), startup_due(observed))
    return min((due for due in dues if due is not None and due > observed.now), default=None)


def active_due(observed: Observed) -> datetime | None:
    """Suspended time does not count."""
    limit = observed.spec.active_deadline_seconds if observed.spec else None
    start = parse_time(observed.status.start_time)
    if limit is None or start is None or observed.attempt == 0 or observed.status.phase == "Suspended":
        return None
    return start + timedelta(seconds=limit + max(observed.status.suspended_seconds, 0))


def startup_due(observed: Observed) -> datetime | None:
    waiting, spec = observed.status.waiting, observed.spec
    if waiting is None or spec is None or observed.is_attempt_lost or observed.status.phase not in AWAITED:
        return None
    since = parse_time(waiting.since)
    limit = spec.restart_deadline_seconds if waiting.again else spec.start_deadline_seconds
    return since + timedelta(seconds=limit) if since is not None and limit is not None else None


def count_suspended(observed: Observed) -> int:
    """status.suspendedSeconds with the suspension that ends now."""
    stamps = [x.last_transition_time for x in observed.status.conditions if x.type == c.SUSPENDED]
    since = parse_time(stamps[0]) if stamps and observed.attempt > 0 else None
    rested = (observed.now - since).total_seconds() if since else 0.0
    return min(observed.status.suspended_seconds + max(int(rested), 0), 2**31 - 1)


def build_failure(
    observed: Observed, *, kind: str, reason: str, message: str, pod: PodView | None = None
) -> FailureStatus:
    """Of the present attempt. `pod` is the head when it is no other's fault."""
    seen = pod or observed.head
    values: dict[str, Any] = {
        "class": kind,
        "reason": reason,
        "message": message,
        "attempt": observed.attempt,
        "pod": seen.name if seen else "",
        "node": seen.node if seen else "",
        "time": format_time(observed.now),
    }
    return FailureStatus.model_validate(values)
