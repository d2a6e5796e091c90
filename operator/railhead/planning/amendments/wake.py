"""When a job is reconciled again although nothing changes: for a user's limit, for a pod whose node does not respond,
and to look up a pod's events.

Of a pod that has a node and does not run, the kubelet may report the cause only in an event. The operator reads that
event after 15 s, then whenever the time has doubled, and at least every 5 minutes, for one pod of the job; and once
before an attempt of which pods have no node is given up: an autoscaler reports only in an event that it adds one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from railhead.planning.facts.deadlines import find_unread, next_due
from railhead.planning.facts.reasons import POD_EVENTS
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import PodView

FIRST_SECONDS, MOST_SECONDS = 15, 300


def wake_for_limits(job: Job, decision: Decision) -> Decision:
    """Adds the earliest of these times."""
    decision = decision.waking(next_due(job))
    return decision if job.status.is_finished else decision.waking(job.next_out_of_reach)


def look_up_pod_events(job: Job, decision: Decision) -> Decision:
    """Adds the look-up, or the time when it is due. A pass that creates or deletes pods looks nothing up."""
    if job.status.is_finished or job.is_attempt_lost or decision.deletes or decision.creates:
        return decision
    unread = find_unread(job)
    if unread is not None:
        return replace(decision, look_up_events_of=unread)
    pod = _find_unexplained(job)
    if pod is None or pod.created_at is None:
        return decision
    waited = (pod.events_read_at - pod.created_at).total_seconds() if pod.events_read_at else FIRST_SECONDS
    after = timedelta(seconds=min(max(waited, FIRST_SECONDS), MOST_SECONDS))
    due = (pod.events_read_at or pod.created_at) + after
    return replace(decision, look_up_events_of=pod) if due <= job.now else decision.waking(due)


def _find_unexplained(job: Job) -> PodView | None:
    for pod in job.not_started:
        if pod.node and (pod.problem is None or pod.problem.reason in POD_EVENTS):
            return pod
    return None
