"""How long pods that are too few to train may keep their nodes (spec.partialStartDeadlineSeconds).

The time begins again with each pod that is created or gets a node, and when an autoscaler begins to add a node for the
pod whose Events are read before its end. What a pod does on its node, such as pulling an image, plays no part.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api import names
from railhead.contract.times import parse_time
from railhead.planning.facts.start_line import find_line, find_turn, turn_end
from railhead.planning.job import Job
from railhead.planning.place import find_place
from railhead.planning.pod_view import PodView


def find_placed(job: Job) -> list[PodView]:
    """The pods that have a node."""
    return [pod for pod in _live_pods(job) if pod.node]


def find_waiting(job: Job) -> PodView | None:
    """A pod that has no node, if possible one for which the scheduler says why."""
    waiting = [pod for pod in _live_pods(job) if not pod.node]
    return min(waiting, key=lambda pod: pod.problem is None, default=None)


def release_due(job: Job) -> datetime | None:
    """When the pods are released; None for a job that can train, or that holds a node for no worker."""
    due = _deadline(job)
    if due is None:
        return None
    turn = _turn_over(job)
    return min(due, turn) if turn is not None else due


def find_unread(job: Job) -> PodView | None:
    """The pod whose Events are to be read before the deadline ends the attempt."""
    due = _deadline(job)
    pod = find_waiting(job) if due is not None and due <= job.now else None
    return pod if pod and due and (pod.events_read_at is None or pod.events_read_at < due) else None


def _live_pods(job: Job) -> list[PodView]:
    return [*([job.head] if job.head is not None and job.head.is_live else []), *job.workers.live]


def _can_train(job: Job, placed: list[PodView]) -> bool:
    workers = sum(pod.role == names.WORKER for pod in placed)
    return len(placed) > workers >= job.least_workers


def _deadline(job: Job) -> datetime | None:
    limit, waiting = job.spec.partial_start_deadline_seconds, job.status.waiting
    if not limit or waiting is None or job.is_attempt_lost:
        return None
    placed = find_placed(job)
    if all(pod.role == names.HEAD for pod in placed) or _can_train(job, placed):
        return None  # a head alone holds no GPU
    moved = [at for pod in _live_pods(job) for at in (pod.created_at, pod.scheduled_at, pod.node_added_at) if at]
    since = max([parse_time(waiting.since) or job.now, *moved])
    return min(since, job.now) + timedelta(seconds=limit)


def _turn_over(job: Job) -> datetime | None:
    """When the job makes way for another one that released its pods: at the end of its turn."""
    own = find_place(job.name, job.uid, job.status)
    if own is None or own.quota or len(find_line(job)) == 1:
        return None
    if find_turn(job) is not None:
        return job.now
    end = turn_end(own, job.now) if own.turn_since else None
    return end if end is not None and end > job.now else None
