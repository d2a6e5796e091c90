"""Brings the number of worker pods of an elastic job to what the spec wants now.

More pods are made at once; the driver takes them into the group right after a committed
checkpoint. Fewer: the pods go right after a committed checkpoint, because the group loses
what it has trained since the last one. Until then the intent stands in the status.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, StatusWrite, delete_all
from railhead.planning.status_write import build_guard, build_status_write


def decide_resize(observed: Observed) -> Plan | None:
    """Does spec.scaling.desiredWorkers want another number than the attempt has?"""
    if not observed.is_elastic or observed.attempt == 0:
        return None
    surplus = delete_all(observed.surplus_workers)
    if surplus:
        guard = build_guard(observed, workers__desired=observed.status.workers.desired)
        return Plan(status=guard, deletes=surplus)
    wanted, resize = observed.wanted_workers, observed.status.resize
    if wanted > observed.desired_workers:
        return _apply(observed, wanted)
    if wanted == observed.desired_workers:
        return _write_intent(observed, None) if resize is not None else None
    if not observed.is_training:
        return _apply(observed, wanted)
    if resize is None or resize.worker_pods != wanted:
        return _write_intent(observed, {"workerPods": wanted, "afterCheckpoint": _index(observed)})
    return _apply(observed, wanted) if _index(observed) > resize.after_checkpoint else None


def _apply(observed: Observed, wanted: int) -> Plan:
    """Only the status: pods are made and removed by what it says, in the passes that follow."""
    before = observed.desired_workers
    workers = {**observed.status.workers.model_dump(by_alias=True), "desired": wanted}
    status = _write(observed, workers=workers, resize=None)
    message = f"From {before} to {wanted} worker pods (spec.scaling.desiredWorkers)"
    return Plan(status=status, events=(Event("Normal", "Resized", message),) if status else ())


def _write_intent(observed: Observed, resize: dict[str, int] | None) -> Plan:
    return Plan(status=_write(observed, resize=resize))


def _write(observed: Observed, **changes: Any) -> StatusWrite | None:
    """Also compares the generation: an older spec than the present one must not take pods away."""
    status = build_status_write(observed, list(observed.status.conditions), **changes)
    if status is None:
        return None
    return replace(status, tests={**status.tests, "/metadata/generation": observed.generation})


def _index(observed: Observed) -> int:
    checkpoint = observed.status.checkpoint
    return checkpoint.index if checkpoint else -1
