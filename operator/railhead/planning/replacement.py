"""Fills worker slots: those not made yet by name again, lost ones under a new round.

A deleted pod leaves no trace to count, so the round is raised in the status before the
replacement is made, and the replacement's name carries it.
"""

from __future__ import annotations

from railhead.api import conditions as c
from railhead.api.names import HEAD
from railhead.planning.backoff import replacement_at
from railhead.planning.children import head_pod, prerequisites, worker_pods
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, delete_all
from railhead.planning.status_write import build_condition, build_status_write


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
        return Plan(wake_at=at)
    round_ = observed.status.round + 1
    lost = [p for p in observed.lost_workers if p.slot in slots]
    told = f": {lost[0].name} ({lost[0].last_words})" if lost else ""
    message = f"{len(slots)} of {observed.desired_workers} worker pods were lost{told}; replacing them (round {round_})"
    restarts = observed.status.restarts
    status = build_status_write(
        observed,
        [
            build_condition(observed, c.RECONCILING, reason="WorkerLost", message=message),
            build_condition(observed, c.RUNNING, reason="WorkerLost", message=message, status="False"),
        ],
        phase="Restarting",
        round=round_,
        restarts={
            "application": restarts.application,
            "infrastructure": restarts.infrastructure + 1,
            "withoutProgress": restarts.without_progress,
        },
        workers={
            "desired": observed.desired_workers,
            "ready": observed.workers_up,
            "joined": observed.workers_up,
        },
    )
    return Plan(
        status=status,
        creates=worker_pods(observed, attempt=observed.attempt, slots=slots, round_=round_),
        deletes=delete_all(observed.lost_workers),
        events=(Event("Warning", "WorkerReplaced", message),),
    )


def missing_pods(observed: Observed) -> Plan:
    """Pods that the status intends and nobody has made yet (the operator was ended in between)."""
    if observed.were_all_up:
        return Plan()
    head_missing = observed.head is None
    if head_missing and any(p.role == HEAD and not p.is_over for p in observed.pods):
        return Plan()  # an attempt that the status does not tell of yet: the view of the job is old
    slots = observed.empty_slots
    if not head_missing and not slots:
        return Plan()
    return Plan(
        creates=(
            *(prerequisites(observed) if observed.status.round == 0 else ()),
            *((head_pod(observed, attempt=observed.attempt),) if head_missing else ()),
            *worker_pods(observed, attempt=observed.attempt, slots=slots, round_=observed.status.round),
        )
    )
