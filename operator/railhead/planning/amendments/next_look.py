"""Decides when a job is reconciled again although nothing changes: for a limit, or to look up a pod's events.

Of a pod that has a node and does not run, the kubelet may report the cause only in an event. The operator reads that
event after 15 s, then whenever the time has doubled, and at least every 5 minutes, for one pod of the job, and for each
that is left when half of the workers have run for a while. It reads events once more before a pod is replaced that its
node does not start, and before an attempt of which pods have no node is given up: an autoscaler reports only in an
event that it adds one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter

from railhead.planning.facts.deadlines import find_unread, next_due
from railhead.planning.facts.reasons import POD_EVENTS
from railhead.planning.facts.unstarted import find_look_time, find_unconfirmed, next_unstarted
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import PodView

FIRST_SECONDS = 15
MOST_SECONDS = 300


def wake_for_limits(job: Job, decision: Decision) -> Decision:
    """Wakes the job for a limit of the user, a pod that does not start, or a node that does not respond."""
    decision = decision.with_wake_by(next_due(job)).with_wake_by(next_unstarted(job))
    if job.status.is_finished:
        return decision
    return decision.with_wake_by(job.next_out_of_reach)


def look_up_pod_events(job: Job, decision: Decision) -> Decision:
    """Adds the look-up, or the time when it is due. A pass that creates or deletes pods looks nothing up."""
    # The answers to these change the view at once, and Events read before that would be about pods that go.
    if job.status.is_finished or job.is_attempt_lost or decision.deletes or decision.creates:
        return decision
    unread = find_unread(job) or find_unconfirmed(job)
    if unread is not None:
        return replace(decision, look_up_events_of=unread)
    placed = [pod for pod in job.not_started if pod.node and pod.created_at is not None]
    placed = [pod for pod in placed if pod.problem is None or pod.problem.reason in POD_EVENTS]
    if not placed:
        return decision
    if len(placed) > 1:
        all_from = find_look_time(job)
        if all_from is None or all_from > job.now:
            placed = placed[:1]
            decision = decision.with_wake_by(all_from)
    due, pod = min(((_next_look(pod, job.now), pod) for pod in placed), key=itemgetter(0))
    if due <= job.now:
        return replace(decision, look_up_events_of=pod)
    return decision.with_wake_by(due)


def _next_look(pod: PodView, now: datetime) -> datetime:
    """Returns when the pod's Events are due to be read."""
    created_at = pod.created_at or now
    read_at = pod.events_read_at
    if read_at is None:
        return created_at + timedelta(seconds=FIRST_SECONDS)
    # The pause is as long as the pod's age at the last look, so that the time doubles.
    waited = (read_at - created_at).total_seconds()
    return read_at + timedelta(seconds=min(max(waited, FIRST_SECONDS), MOST_SECONDS))
