"""How long an incomplete attempt may hold its pods while the API server rejects the others."""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.contract.times import parse_time
from railhead.planning.facts.reasons import QUOTA_EXCEEDED
from railhead.planning.facts.start_line import TURN_SECONDS, exceeds_quota, find_turn, may_create
from railhead.planning.job import Job
from railhead.planning.place import find_place

HOLD_SECONDS = 30
OUTAGE_SECONDS = 600  # a webhook, a policy or the API server's rights: other jobs need nothing that the pods hold


def find_hold_seconds(job: Job) -> int:
    """Longer for a group that was complete before: what ends within minutes must not cost it a healthy pod."""
    if exceeds_quota(job):
        return 0
    is_quota = job.rejection is None or job.rejection.problem.reason == QUOTA_EXCEEDED
    return HOLD_SECONDS if is_quota or not job.status.head.pod else OUTAGE_SECONDS


def held_since(job: Job) -> datetime | None:
    """Since when pods are held for others that the API server rejects, or that wait for the job's turn. None while
    nothing is held for them: pods that wait for nodes or for each other are nobody's fault."""
    waiting, refused = job.status.waiting, _refused_since(job)
    if refused is None or waiting is None or job.is_attempt_lost:
        return None
    is_complete = job.head is not None and len(job.workers.live) >= job.least_workers
    held = [pod for pod in job.pods if pod.is_live and pod.attempt == job.attempt]
    if is_complete or not held:
        return None
    waited = parse_time(waiting.since) or job.now
    first = min((pod.created_at for pod in held if pod.created_at), default=job.now)
    return min(max(waited, first, refused), job.now)


def give_up_due(job: Job) -> datetime | None:
    """When the pods are released: in the job's turn after others of the line have released theirs."""
    since = held_since(job)
    if since is None:
        return None
    due = since + timedelta(seconds=find_hold_seconds(job))
    place = find_place(job.name, job.uid, job.status)
    if place is None or job.rejection is None or not job.rejection.is_contended or not may_create(job):
        return due
    return max(due, (place.turn_since or since) + timedelta(seconds=TURN_SECONDS))


def _refused_since(job: Job) -> datetime | None:
    """By what this operator saw, or another one that wrote it into the status."""
    if job.rejection is not None:
        return job.rejection.since
    place = find_place(job.name, job.uid, job.status)
    return place.since if place is not None and place.quota and find_turn(job) is not None else None
