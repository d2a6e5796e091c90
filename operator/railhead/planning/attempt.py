"""Begins an attempt: the intent in the status, then everything that the attempt consists of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.api import conditions as c
from railhead.api.names import HEAD, MAX_ATTEMPT
from railhead.planning.children import head_pod, prerequisites, worker_pods
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, delete_all
from railhead.planning.resume_from import find_initial_checkpoint
from railhead.planning.status_write import build_not_running, build_status_write, format_time, look_first


def begin_attempt(
    observed: Observed, *, attempt: int, event: Event, phase: str = "", again: bool = False, **changes: Any
) -> Plan:
    """The plan that raises the attempt and makes its children; `changes` go into the same write.

    `again`: training has run since the job was started or resumed.
    """
    attempt = min(attempt, MAX_ATTEMPT)
    phase = phase or ("Pending" if attempt == 1 else "Restarting")
    workers = observed.wanted_workers
    initial = find_initial_checkpoint(observed)
    if initial is not None:
        changes["initialCheckpoint"] = initial.model_dump(by_alias=True)
    message = f"Attempt {attempt}: 1 head pod and {workers} worker pods are being started"
    status = build_status_write(
        observed,
        build_not_running(observed, c.RECONCILING, reason=phase, message=message),
        phase=phase,
        attempt=attempt,
        round=0,
        head={"pod": "", "node": ""},
        workers={"desired": workers, "ready": 0, "joined": 0},
        resize=None,
        waiting={"since": format_time(observed.now), "again": again},
        startTime=observed.status.start_time or format_time(observed.now),
        **changes,
    )
    creates = (
        *prerequisites(observed),
        head_pod(observed, attempt=attempt, workers=workers),
        *worker_pods(observed, attempt=attempt, slots=range(workers), round_=0),
    )
    return Plan(status=status, creates=creates, events=(event,))


def begin_next_attempt(observed: Observed, *, reason: str, **options: Any) -> Plan:
    """The one after the present attempt, of which nothing acts any more; `reason` is the event's."""
    attempt = observed.attempt + 1
    begin = f" from checkpoint {observed.status.checkpoint.index}" if observed.status.checkpoint else ""
    event = Event("Normal", reason, f"Starting attempt {attempt}{begin}")
    plan = begin_attempt(observed, attempt=attempt, event=event, **options)
    status = look_first(observed, plan.status)  # for a head that was not seen yet
    return replace(
        plan, status=status, deletes=delete_all(observed.pods), events=(*_tell_left_behind(observed), *plan.events)
    )


def _tell_left_behind(observed: Observed) -> tuple[Event, ...]:
    """Somebody has to look at the node; the job does not wait for that."""
    left = observed.left_behind
    if not left:
        return ()
    pods = ", ".join(f"{p.name} on node {p.node or '(none)'}" for p in left[:3])
    message = (
        f"{len(left)} pods did not end within their grace period and are left behind: {pods}. If a head still runs "
        "there, it commits and deletes nothing more (.railhead/ in the run's folder names the later attempt)"
    )
    return (Event("Warning", "PodsLeftBehind", message),)


def decide_first_attempt(observed: Observed) -> Plan | None:
    """A job that was never started begins its first attempt.

    When somebody wiped the status of a running job or set it back, its pods tell which attempt it is
    in: that one is taken up again, and its children are found by their names. When the view of the
    job is merely old, the compare refuses that, and nothing is done.
    """
    alive = observed.acting_pods
    later = max((p.attempt for p in alive), default=0) > observed.attempt
    if observed.attempt > 0 and not later:
        return None
    heads = [p.attempt for p in alive if p.role == HEAD and p.attempt > observed.attempt]
    attempt = max(heads or [p.attempt for p in alive] or [1])
    event = Event("Normal", "Created", f"Starting 1 head pod and {observed.wanted_workers} worker pods")
    plan = begin_attempt(observed, attempt=max(attempt, 1), event=event)
    return replace(plan, creates=(), events=()) if observed.attempt > 0 else plan
