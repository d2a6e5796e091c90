"""CheckpointCommitted: at most one event a minute per job, and one for the last commit when it ends or is suspended.

The operator keeps the last announced commit in memory. When it starts, it treats every commit
that it finds as announced.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.status_change import UNSET, StatusChange

PERIOD_SECONDS = 60
ENDS = ("Succeeded", "Failed", "Suspended")


def announce_commit(job: Job, decision: Decision) -> Decision:
    """Adds the event if a commit is due to be announced, else the time when it will be."""
    change = decision.status or StatusChange()
    found = job.status.checkpoint if change.checkpoint is UNSET else change.checkpoint
    if job.announced is None or found is None or found.index <= job.announced.index:
        return decision
    phase = job.status.phase if change.phase is UNSET else change.phase
    at = job.announced.at + timedelta(seconds=PERIOD_SECONDS) if job.announced.at else job.now
    if phase not in ENDS and at > job.now:
        return decision.waking(at)
    message = f"Checkpoint {found.index} was committed: {found.uri[:800]}"
    event = Event("Normal", "CheckpointCommitted", message, is_series=True)
    return replace(decision, events=(event, *decision.events), announced=found.index)
