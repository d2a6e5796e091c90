"""What the driver warns of, as a condition: Resumable is False while the run is not the job's own, and
CheckpointFallback is True while it goes on from an older checkpoint, because newer ones were lost.

Training goes on meanwhile. The condition rides along with every status write of the job
(`status_write`), and one event is sent when it comes.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as c
from railhead.api.status import DriverWarning
from railhead.contract.report import LOSSES
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan

KINDS = (c.RESUMABLE, c.CHECKPOINT_FALLBACK)
_NOT_KNOWN_YET = ("", "STARTING", "SCHEDULING")


def find_warning(observed: Observed) -> DriverWarning | None:
    """The driver's, of this attempt; that of the attempt before until this one's fit() has begun."""
    progress = observed.status.progress
    if progress.attempt == observed.attempt and (progress.warning or progress.state not in _NOT_KNOWN_YET):
        return progress.warning
    before = next((each for each in observed.status.conditions if each.type in KINDS), None)
    return DriverWarning(reason=before.reason, message=before.message) if before else None


def find_kind(warning: DriverWarning) -> tuple[str, str]:
    """Type and status of the condition."""
    return (c.CHECKPOINT_FALLBACK, "True") if warning.reason in LOSSES else (c.RESUMABLE, "False")


def add_warning_events(observed: Observed, plan: Plan) -> Plan:
    """The plan with an event when its status write, whatever it is for, brings the condition."""
    warning = find_warning(observed)
    if warning is None or not (plan.status and plan.status.fields):
        return plan
    if observed.status.reason_of(find_kind(warning)[0]) == warning.reason:
        return plan
    return replace(plan, events=(*plan.events, Event("Warning", warning.reason, warning.message)))
