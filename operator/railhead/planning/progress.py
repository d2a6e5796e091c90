"""Phase and conditions of a live attempt: Pending, Starting, Running, Restarting.

Counts of ready pods alone cause no write where the number of workers is fixed; they ride
along with the next one. Of an elastic job they are what a user wants to see.
"""

from __future__ import annotations

from typing import Any

from railhead.api import conditions as c
from railhead.api.conditions import Condition
from railhead.api.scaling import START_WAIT_SECONDS
from railhead.planning import silent
from railhead.planning.missing import missing_pods
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan
from railhead.planning.refused import REASONS
from railhead.planning.silent import ask_about_silent
from railhead.planning.status_write import build_condition, build_not_running, build_status_write, wait_again

UNSCHEDULABLE = "Unschedulable"


def decide_progress(observed: Observed) -> Plan:
    """The last decision: what does the live attempt look like?"""
    plan = missing_pods(observed)
    return plan if plan.creates else show_progress(observed)


def show_progress(observed: Observed) -> Plan:
    """What there is to say, without anything to do."""
    return ask_about_silent(observed, _show(observed))


def _show(observed: Observed) -> Plan:
    if observed.were_all_up or observed.are_enough_up:
        return _training(observed) if observed.is_training else _starting(observed)
    return _pending(observed)


def _pending(observed: Observed) -> Plan:
    """Not all pods are up. Only a pod that cannot start is worth a word."""
    found = observed.startup_problem
    if found is None:
        return _tell_problem_is_past(observed)
    pod, problem = found
    if observed.status.reason_of(c.RECONCILING) == problem.reason:
        return Plan()  # the message may change with every try; one write per reason is enough
    message = f"Pod {pod.name} cannot start: {problem.message[:800]}"
    phase = observed.status.phase or "Pending"
    status = build_status_write(
        observed,
        build_not_running(observed, c.RECONCILING, reason=problem.reason, message=message),
        phase=phase,
    )
    return Plan(status=status, events=(Event("Warning", problem.reason, message, is_series=True),) if status else ())


def _tell_problem_is_past(observed: Observed) -> Plan:
    """Of a pod that has found its place, or could be made after all; the others tell by coming up."""
    if observed.status.reason_of(c.RECONCILING) not in (UNSCHEDULABLE, *REASONS, *silent.REASONS):
        return Plan()
    phase = observed.status.phase or "Pending"
    message = f"All pods of attempt {observed.attempt} have been made and are starting"
    conditions = build_not_running(observed, c.RECONCILING, reason=phase, message=message)
    return Plan(status=build_status_write(observed, conditions, phase=phase))


def _fields(observed: Observed, *, joined: int) -> dict[str, Any]:
    head = observed.head
    desired = observed.desired_workers
    ready = observed.workers_up if observed.is_elastic else desired
    return {
        "head": {"pod": head.name, "node": head.node} if head else observed.status.head.model_dump(by_alias=True),
        "workers": {"desired": desired, "ready": ready, "joined": joined},
    }


def _starting(observed: Observed) -> Plan:
    """Enough pods are up; Ray and the worker group are coming up (again)."""
    was_running = observed.status.phase == "Running"
    again = was_running or observed.is_restart or observed.status.round > 0
    if was_running and observed.status.progress.state in ("", "STARTING", "SCHEDULING", "ERRORED"):
        return Plan()  # the driver's end is near or its word is old; the pods will tell
    phase = "Restarting" if again else "Starting"
    message = "The worker group is being formed again" if again else _tell_start(observed)
    status = build_status_write(
        observed,
        build_not_running(observed, c.RECONCILING, reason=phase, message=message),
        phase=phase,
        **(wait_again(observed) if was_running else {}),
        **_fields(observed, joined=observed.joined if observed.is_elastic else observed.status.workers.joined),
    )
    return Plan(status=status)


def _tell_start(observed: Observed) -> str:
    if observed.are_all_up or observed.spec is None:
        return "All pods are up; Ray and the worker group are starting"
    wait = observed.spec.scaling.start_wait_seconds
    return (
        f"{observed.workers_up} of {observed.desired_workers} worker pods are up; training starts when all are, "
        f"or after {START_WAIT_SECONDS if wait is None else wait} s with at least {observed.least_workers}"
    )


def _training(observed: Observed) -> Plan:
    joined = observed.joined if observed.is_elastic else observed.desired_workers
    on = (
        f"{observed.workers_up} of {observed.desired_workers}" if observed.is_elastic else f"{observed.desired_workers}"
    )
    message = f"Training runs on {on} worker pods (attempt {observed.attempt})"
    status = build_status_write(
        observed,
        [
            build_condition(observed, c.RUNNING, reason="Training", message=message),
            *_wait_for_workers(observed),
        ],
        phase="Running",
        waiting=None,
        **_fields(observed, joined=joined),
    )
    is_news = observed.status.phase != "Running"
    events = (Event("Normal", "Started", message),) if is_news else ()
    return Plan(status=status, events=events if status else ())


def _wait_for_workers(observed: Observed) -> list[Condition]:
    """An elastic job trains, and still wants more pods, or fewer."""
    if not observed.is_elastic:
        return []
    resize = observed.status.resize
    if resize is not None:
        message = (
            f"{observed.desired_workers - resize.worker_pods} worker pods go right after the next committed checkpoint"
        )
        return [build_condition(observed, c.RECONCILING, reason="Resizing", message=message)]
    missing = observed.desired_workers - observed.workers_up
    if missing <= 0:
        return []
    found = observed.startup_problem
    why = f": pod {found[0].name} cannot start: {found[1].reason}" if found else ""
    if observed.refusal is not None:
        why = f": {observed.refusal.problem.reason}: {observed.refusal.problem.message[:600]}"
    message = f"{missing} worker pods are still awaited{why}; they join right after a committed checkpoint"
    return [build_condition(observed, c.RECONCILING, reason="WaitingForWorkers", message=message)]
