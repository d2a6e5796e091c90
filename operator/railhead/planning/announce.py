"""CheckpointCommitted: at most one event a minute for each job, and one for its last commit when it ends or rests.

Which commit was told of last is the operator's own memory. An operator that starts counts what
it finds as told.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan

PERIOD_SECONDS = 60
ENDS = ("Succeeded", "Failed", "Suspended")


def announce(observed: Observed, decided: Plan) -> Plan:
    """The plan with the event when a commit is to be told of, or with the time when it will be."""
    known = observed.announced
    fields = decided.status.fields if decided.status else {}
    found = fields.get("checkpoint") or _present(observed)
    if known is None or not found or found["index"] <= known.index:
        return decided
    phase = fields.get("phase", observed.status.phase)
    at = known.at + timedelta(seconds=PERIOD_SECONDS) if known.at else observed.now
    if phase not in ENDS and at > observed.now:
        wake_at = min(at, decided.wake_at) if decided.wake_at else at
        return replace(decided, wake_at=wake_at)
    message = f"Checkpoint {found['index']} was committed: {found['uri'][:800]}"
    event = Event("Normal", "CheckpointCommitted", message, is_series=True)
    return replace(decided, events=(event, *decided.events), announced=found["index"])


def _present(observed: Observed) -> dict[str, Any]:
    checkpoint = observed.status.checkpoint
    return {"index": checkpoint.index, "uri": checkpoint.uri} if checkpoint else {}
