"""Phase and conditions of a live attempt: Pending, Starting, Running, Restarting.

Counts of ready pods alone cause no write; they ride along with the next one.
"""

from __future__ import annotations

from typing import Any

from railhead.api import conditions as c
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan
from railhead.planning.replacement import missing_pods
from railhead.planning.status_write import build_condition, build_status_write
from railhead.planning.warnings import warning_events


def decide_progress(observed: Observed) -> Plan:
    """The last decision: what does the live attempt look like?"""
    if observed.were_all_up or observed.are_all_up:
        return _training(observed) if observed.is_training else _starting(observed)
    plan = missing_pods(observed)
    return plan if plan.creates else _pending(observed)


def _pending(observed: Observed) -> Plan:
    """Not all pods are up. Only a pod that cannot start is worth a word."""
    found = observed.startup_problem
    if found is None:
        return Plan()
    pod, problem = found
    if observed.status.reason_of(c.RECONCILING) == problem.reason:
        return Plan()  # the message may change with every try; one write per reason is enough
    message = f"Pod {pod.name} cannot start: {problem.message[:800]}"
    phase = observed.status.phase or "Pending"
    status = build_status_write(
        observed,
        [
            build_condition(observed, c.RECONCILING, reason=problem.reason, message=message),
            build_condition(observed, c.RUNNING, reason=problem.reason, message=message, status="False"),
        ],
        phase=phase,
    )
    return Plan(status=status, events=(Event("Warning", problem.reason, message),) if status else ())


def _fields(observed: Observed, *, joined: int) -> dict[str, Any]:
    head = observed.head
    return {
        "head": {"pod": head.name, "node": head.node} if head else observed.status.head.model_dump(by_alias=True),
        "workers": {"desired": observed.desired_workers, "ready": observed.desired_workers, "joined": joined},
    }


def _starting(observed: Observed) -> Plan:
    """All pods are up; Ray and the worker group are coming up (again)."""
    was_running = observed.status.phase == "Running"
    again = was_running or observed.attempt > 1 or observed.status.round > 0
    if was_running and observed.status.progress.state in ("", "STARTING", "SCHEDULING", "ERRORED"):
        return Plan()  # the driver's end is near or its word is old; the pods will tell
    phase = "Restarting" if again else "Starting"
    message = (
        "The worker group is being formed again" if again else "All pods are up; Ray and the worker group are starting"
    )
    status = build_status_write(
        observed,
        [
            build_condition(observed, c.RECONCILING, reason=phase, message=message),
            build_condition(observed, c.RUNNING, reason=phase, message=message, status="False"),
        ],
        phase=phase,
        **_fields(observed, joined=observed.status.workers.joined),
    )
    return Plan(status=status)


def _training(observed: Observed) -> Plan:
    message = f"Training runs on {observed.desired_workers} worker pods (attempt {observed.attempt})"
    status = build_status_write(
        observed,
        [build_condition(observed, c.RUNNING, reason="Training", message=message)],
        phase="Running",
        **_fields(observed, joined=observed.desired_workers),
    )
    is_news = observed.status.phase != "Running"
    events = (Event("Normal", "Started", message),) if is_news else ()
    return Plan(status=status, events=(*events, *warning_events(observed)) if status else ())
