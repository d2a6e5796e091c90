"""A refused child: said at once by the condition `Reconciling`, and made again after 5, 10, 20, 30, 30 ... s,
while other pods wait for it after 5, 10, 10 ... s.

Nothing at all is made for the job until then, whatever the pass has decided. No restart is
counted: nothing was lost.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from railhead.api import conditions as c
from railhead.planning.backoff import refused_until
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan
from railhead.planning.pod_view import Problem
from railhead.planning.progress import show_progress
from railhead.planning.release import release_due
from railhead.planning.status_write import build_not_running, build_status_write


def hold_back(observed: Observed, decided: Plan) -> Plan:
    """The plan without what it would make, while the API server's last refusal is young."""
    refusal = observed.refusal
    if refusal is None or not decided.creates:
        return decided
    due = release_due(observed)
    at = refused_until(observed, refusal, is_held=due is not None)
    if at <= observed.now:
        return decided
    at = _earlier(due, at)
    if decided.status is not None and decided.status.fields:
        return replace(decided, creates=(), wake_at=_earlier(decided.wake_at, at))  # the next pass says why
    if observed.is_elastic and observed.are_enough_up:
        told = show_progress(observed)  # it trains all the same
    else:
        told = _tell(observed, refusal.problem)
    return replace(told, deletes=decided.deletes, wake_at=_earlier(decided.wake_at, at))


def _tell(observed: Observed, problem: Problem) -> Plan:
    """Said once, and again when it is something else."""
    reason, message = problem.reason, problem.message
    if any((x.type, x.reason, x.message) == (c.RECONCILING, reason, message) for x in observed.status.conditions):
        return Plan()
    status = build_status_write(
        observed,
        build_not_running(observed, c.RECONCILING, reason=reason, message=message),
        phase=observed.status.phase or "Pending",
    )
    return Plan(status=status, events=(Event("Warning", reason, message, is_series=True),) if status else ())


def _earlier(one: datetime | None, other: datetime) -> datetime:
    return min(one, other) if one else other
