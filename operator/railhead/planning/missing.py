"""Makes pods that the status intends and that do not exist yet, by the same names as before."""

from __future__ import annotations

from railhead.api.names import HEAD
from railhead.planning.children import head_pod, prerequisites, worker_pods
from railhead.planning.observed import Observed
from railhead.planning.plan import Create, Plan
from railhead.planning.status_write import build_guard


def missing_pods(observed: Observed) -> Plan:
    """Pods that the status intends and nobody has made yet (the operator was ended in between)."""
    if observed.were_all_up:
        return Plan()
    head_missing = observed.head is None and not observed.was_head_up
    if head_missing and any(p.role == HEAD for p in observed.acting_pods):
        return Plan()  # never two heads
    slots = observed.empty_slots
    if not head_missing and not slots:
        return Plan()
    return Plan(
        status=build_guard(observed),
        creates=(
            *(prerequisites(observed) if observed.status.round == 0 else ()),
            *(_head(observed) if head_missing else ()),
            *worker_pods(observed, attempt=observed.attempt, slots=slots, round_=observed.status.round),
        ),
    )


def _head(observed: Observed) -> tuple[Create, ...]:
    return (head_pod(observed, attempt=observed.attempt, workers=observed.desired_workers),)
