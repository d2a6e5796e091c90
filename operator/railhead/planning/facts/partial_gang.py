"""How long an incomplete attempt may hold its pods while the API server rejects the others."""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.contract.times import parse_time
from railhead.planning.facts.reasons import QUOTA_EXCEEDED
from railhead.planning.job import Job

HOLD_SECONDS = 30
OUTAGE_SECONDS = 600  # a webhook, a policy or the API server's rights: other jobs need nothing that the pods hold


def find_hold_seconds(job: Job) -> int:
    """Longer for a group that was complete before: what ends within minutes must not cost it a healthy pod."""
    is_quota = job.rejection is not None and job.rejection.problem.reason == QUOTA_EXCEEDED
    return HOLD_SECONDS if is_quota or not job.status.head.pod else OUTAGE_SECONDS


def give_up_due(job: Job) -> datetime | None:
    """None while nothing is held for a rejected pod. Counts from the first rejection, as long as pods are held for it:
    pods that wait for nodes or for each other are nobody's fault."""
    waiting = job.status.waiting
    if job.rejection is None or waiting is None or job.is_attempt_lost:
        return None
    is_complete = job.head is not None and len(job.workers.live) >= job.least_workers
    held = [pod for pod in job.pods if pod.is_live and pod.attempt == job.attempt]
    if is_complete or not held:
        return None
    waited = parse_time(waiting.since) or job.now
    first = min((pod.created_at for pod in held if pod.created_at), default=job.now)
    return min(max(waited, first, job.rejection.since), job.now) + timedelta(seconds=find_hold_seconds(job))
