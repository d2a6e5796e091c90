"""Backoff after a rejected child: the condition Reconciling reports it at once, and the create is retried after
5, 10, 20, 30, 30 ... s, or after 5, 10, 10 ... s while other pods wait for it.

Until then nothing is created for the job, whatever the pass has decided. No restart is
counted: nothing was lost.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.facts.deadlines import give_up_due
from railhead.planning.facts.settlement import rejected_until
from railhead.planning.facts.start_line import explain_rejection
from railhead.planning.hold import hold_back
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.status_write import changes_anything


def hold_back_creates(job: Job, decision: Decision) -> Decision:
    """Drops the creates of the decision during the backoff after the API server's last rejection."""
    rejection = job.rejection
    if rejection is None or not decision.creates:
        return decision
    due = give_up_due(job)
    at = rejected_until(job, rejection, is_held=due is not None)
    if at <= job.now:
        return decision
    if decision.status is not None and not decision.status.is_guard and changes_anything(job, decision.status):
        held = replace(decision, creates=())  # the next pass reports why
    else:
        held = hold_back(job, decision, explain_rejection(job, rejection.problem), event="Warning")
    return held.waking(at).waking(due)
