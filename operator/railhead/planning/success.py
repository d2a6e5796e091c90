"""The end that everybody hopes for, and the checkpoint in the driver's last word."""

from __future__ import annotations

from typing import Any

from railhead.api import conditions as c
from railhead.api.names import HEAD
from railhead.contract.outcome import Outcome
from railhead.planning.driver_words import changed_best, count_of, metrics_of, newer_checkpoint
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, delete_all
from railhead.planning.status_write import build_not_running, build_status_write, format_time


def last_checkpoint(observed: Observed, outcome: Outcome | None) -> dict[str, Any]:
    """The status fields for checkpoints that only the driver's last word tells of."""
    if outcome is None:
        return {}
    told = outcome.checkpoint
    time = format_time(observed.now)
    checkpoint = newer_checkpoint(told, observed.status, attempt=observed.attempt, time=time)
    best = changed_best(outcome.best_checkpoint, observed.status, attempt=observed.attempt)
    return {**({"checkpoint": checkpoint} if checkpoint else {}), **best}


def last_progress(observed: Observed, outcome: Outcome | None) -> dict[str, Any]:
    """The final progress, when the driver's last report has not come through (yet)."""
    known = observed.status.progress
    is_known = known.attempt == observed.attempt and known.state == "FINISHED"
    if outcome is None or is_known:
        return {}
    warning = known.warning if known.attempt == observed.attempt else None
    return {
        "progress": {
            "attempt": observed.attempt,
            "state": "FINISHED",
            "reports": count_of(outcome.reports),
            "joined": observed.desired_workers,
            "workers": known.workers if known.attempt == observed.attempt else 0,
            "metrics": metrics_of(outcome.metrics),
            "updateTime": format_time(observed.now),
            **({"warning": warning.model_dump()} if warning else {}),
        }
    }


def decide_success(observed: Observed) -> Plan | None:
    """The head ended well and says so: the job is complete, the workers go at once."""
    head = observed.head
    if head is None or not head.has_succeeded:
        return None
    outcome = head.outcome
    message = f"Training finished in attempt {observed.attempt}" + (
        f": {outcome.message}" if outcome and outcome.message else ""
    )
    status = build_status_write(
        observed,
        build_not_running(observed, c.COMPLETE, reason="Succeeded", message=message),
        phase="Succeeded",
        completionTime=format_time(head.finished_at or observed.now),
        head={"pod": head.name, "node": head.node},
        workers={"desired": observed.desired_workers, "ready": 0, "joined": 0},
        **last_progress(observed, outcome),
        **last_checkpoint(observed, outcome),
    )
    deletes = delete_all(pod for pod in observed.pods if pod.role != HEAD)
    return Plan(status=status, deletes=deletes, events=(Event("Normal", "Succeeded", message),))
