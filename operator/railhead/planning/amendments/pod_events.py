"""Pods that have a node, do not run and do not report why: the kubelet reports the cause only in an event.

The operator looks up that event after 15 s, then whenever the time has doubled, and at least
every 5 minutes, for one pod of the job. And once before an attempt of which pods have no node is
given up: an autoscaler reports only in an event that it adds one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from railhead.planning.facts.deadlines import find_unread
from railhead.planning.facts.reasons import POD_EVENTS
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import PodView

FIRST_SECONDS, MOST_SECONDS = 15, 300


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
