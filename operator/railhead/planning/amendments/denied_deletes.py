"""Holds back the deletes that the API server denies."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.observed import Observed, denied_until
from railhead.planning.plan import Decision


def hold_back_deletes(observed: Observed, decision: Decision) -> Decision:
    """Drops the deletes and the change that were denied a moment ago, and what is only done once all deletes have
    succeeded; and wakes the job when the next of them is to be tried again."""
    denied = observed.denied
    if not denied:
        return decision
    is_job_denied = observed.name in denied and decision.delete_job is not None
    removes = tuple(each for each in decision.removes if each.name not in denied)
    if is_job_denied:
        delete_job = None
    else:
        delete_job = decision.delete_job
    last = None
    if removes == decision.removes:
        last = decision.last
    if decision.workload is not None and decision.workload.name in denied:
        workload = None
    else:
        workload = decision.workload
    held = replace(
        decision,
        deletes=tuple(each for each in decision.deletes if each.name not in denied),
        removes=removes,
        delete_job=delete_job,
        last=last,
        workload=workload,
    )
    return held.with_wake_by(
        min(at for each in observed.denials if (at := denied_until(each, observed.now)) > observed.now)
    )
