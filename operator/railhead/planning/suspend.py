"""spec.suspend: the order of an end without a loss, and the beginning after it.

The status comes first. Then the head alone is told: its driver waits for one more committed
checkpoint, at most `suspendGraceSeconds`. The workers go when it has ended, and Suspended is
said when no pod can act any more. What has begun is finished, whatever the spec says by then.
Going on is a new attempt, which no budget counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.api import conditions as c
from railhead.planning.attempt import begin_next_attempt
from railhead.planning.deadlines import count_suspended
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, StatusWrite, delete_all
from railhead.planning.resume_from import decide_source
from railhead.planning.status_write import build_not_running, build_status_write
from railhead.planning.success import last_checkpoint

SUSPENDING, SUSPENDED = "Suspending", "Suspended"


def decide_suspend(observed: Observed) -> Plan | None:
    """Is the job to rest, on its way to it, or to go on?"""
    phase = observed.status.phase
    is_wanted = observed.spec is not None and observed.spec.suspend
    if phase == SUSPENDED:
        return _rest(observed) if is_wanted else decide_source(observed) or _resume(observed)
    if phase != SUSPENDING and not is_wanted:
        return None
    if observed.head is not None and observed.head.has_succeeded:
        return None  # it has finished instead
    return _end(observed) if phase == SUSPENDING else _begin(observed)


def _begin(observed: Observed) -> Plan:
    """Says it, and tells the head; a job without pods is there already."""
    if not observed.acting_pods:
        return _say_suspended(observed)
    grace = observed.spec.suspend_grace_seconds if observed.spec else 0
    message = f"The driver is told to end after one more committed checkpoint, within {grace} s; then the pods go"
    status = build_status_write(
        observed,
        build_not_running(observed, c.RECONCILING, reason=SUSPENDING, message=message),
        phase=SUSPENDING,
    )
    return replace(_end(observed), status=_of_this_spec(observed, status))


def _end(observed: Observed) -> Plan:
    """The head, and when it has ended all others."""
    head = observed.head
    if head is not None and not head.has_ended and not observed.is_attempt_lost:
        if not head.is_deleting:
            return Plan(deletes=delete_all([head]))
        if head.may_still_end(observed.now):
            return Plan(wake_at=head.gone_by)
    remains = observed.acting_pods
    if not remains:
        return _say_suspended(observed)
    fields = last_checkpoint(observed, head.outcome if head else None)
    return Plan(
        status=build_status_write(observed, list(observed.status.conditions), **fields),
        deletes=delete_all(remains),
    )


def _say_suspended(observed: Observed) -> Plan:
    fields = last_checkpoint(observed, observed.head.outcome if observed.head else None)
    known = fields.get("checkpoint") or (observed.status.checkpoint and {"index": observed.status.checkpoint.index})
    begin = f"goes on from checkpoint {known['index']}" if known else "begins from the start"
    message = f"The job has no pods; when spec.suspend is false it {begin}"
    status = build_status_write(
        observed,
        build_not_running(observed, c.SUSPENDED, reason=SUSPENDED, message=message),
        phase=SUSPENDED,
        head={"pod": "", "node": ""},
        workers={"desired": observed.desired_workers, "ready": 0, "joined": 0},
        resize=None,
        waiting=None,
        **fields,
    )
    if observed.status.phase != SUSPENDING:
        status = _of_this_spec(observed, status)
    return Plan(status=status, events=(Event("Normal", SUSPENDED, message),))


def _rest(observed: Observed) -> Plan:
    """Nothing runs, also not what was made by an operator that knew less."""
    return Plan(deletes=delete_all(observed.acting_pods))


def _resume(observed: Observed) -> Plan:
    remains = observed.acting_pods
    if remains:
        return Plan(deletes=delete_all(remains))
    plan = begin_next_attempt(observed, reason="Resumed", phase="Pending", **_count(observed))
    return replace(plan, status=_of_this_spec(observed, plan.status))


def _count(observed: Observed) -> dict[str, Any]:
    seconds = count_suspended(observed)
    return {"suspendedSeconds": seconds} if seconds else {}


def _of_this_spec(observed: Observed, status: StatusWrite | None) -> StatusWrite | None:
    """Also compares the generation: an older spec than the present one must not end or begin anything."""
    if status is None:
        return None
    tests: dict[str, Any] = {**status.tests, "/metadata/generation": observed.generation}
    return replace(status, tests=tests)
