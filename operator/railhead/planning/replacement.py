"""Fills the slots of lost workers under a new round.

A deleted pod leaves no trace to count, so the round is raised in the status before the
replacement is made, and the replacement's name carries it.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as c
from railhead.api.conditions import Condition
from railhead.planning.backoff import replacement_at
from railhead.planning.children import worker_pods
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, delete_all
from railhead.planning.progress import show_progress
from railhead.planning.status_write import build_not_running, build_status_write, look_first, wait_again


def decide_replacement(observed: Observed) -> Plan | None:
    """A worker slot without a live pod, although one was made: replaced in the same attempt."""
    slots = observed.empty_slots
    if not slots:
        return None
    used = {p.slot for p in observed.lost_workers if p.round >= observed.status.round}
    if not observed.were_all_up and not used.intersection(slots):
        return None
    at = replacement_at(observed)
    if at > observed.now:
        # An elastic job may well train meanwhile.
        return replace(show_progress(observed) if observed.is_elastic else Plan(), wake_at=at)
    round_ = observed.status.round + 1
    lost = [p for p in observed.lost_workers if p.slot in slots]
    told = f": {lost[0].name} ({lost[0].last_words})" if lost else ""
    message = f"{len(slots)} of {observed.desired_workers} worker pods were lost{told}; replacing them (round {round_})"
    status = build_status_write(
        observed,
        _conditions(observed, message),
        phase=observed.status.phase if observed.is_elastic else "Restarting",
        round=round_,
        **wait_again(observed),
        restarts=_count_restart(observed),
        workers={
            "desired": observed.desired_workers,
            "ready": observed.workers_up,
            "joined": observed.workers_up,
        },
    )
    if {p.slot for p in lost} != set(slots):
        status = look_first(observed, status)  # gone without a trace, or not seen yet
    return Plan(
        status=status,
        creates=worker_pods(observed, attempt=observed.attempt, slots=slots, round_=round_),
        deletes=delete_all(observed.lost_workers),
        events=(Event("Warning", "WorkerReplaced", message),),
    )


def _conditions(observed: Observed, message: str) -> list[Condition]:
    """The group of an elastic job may go on without them: its driver tells, and `show_progress` says it."""
    if observed.is_elastic:
        return list(observed.status.conditions)
    return build_not_running(observed, c.RECONCILING, reason="WorkerLost", message=message)


def _count_restart(observed: Observed) -> dict[str, int]:
    restarts = observed.status.restarts
    return {**restarts.model_dump(by_alias=True), "infrastructure": restarts.infrastructure + 1}
