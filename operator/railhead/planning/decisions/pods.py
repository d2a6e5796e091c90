"""Pods that exist and should not, and pods that should exist and do not, while the attempt itself is fine.

Stale ones belong to an earlier attempt. Outdated ones avoid a node that the job avoids no more, since the affinity of
a pod cannot be changed: only pods that the scheduler finds no node for, so nothing is lost and nothing counted. Those
that the status announces and that do not exist are created under the same names as before.
"""

from __future__ import annotations

from railhead.api import names
from railhead.api.names import HEAD
from railhead.planning.children import find_missing_mount, head_pod, prerequisites, worker_pods
from railhead.planning.facts.avoided_nodes import find_outdated
from railhead.planning.job import Job
from railhead.planning.plan import Decision, delete_all
from railhead.planning.status_change import GUARD, StatusChange


def decide_stale_pods(job: Job) -> Decision | None:
    """Pods of an earlier attempt end before anything else is done: never two heads.

    Terminated ones are just deleted (the operator stopped before it could), and so is the older of
    two pods in one slot (two operators, one with a stale view).
    """
    earlier = [pod for pod in job.pods if pod.attempt < job.attempt]
    deletes = delete_all(pod for pod in (*earlier, *job.workers.duplicates) if pod.name not in job.denied)
    return Decision(deletes=deletes) if deletes or job.stale_pods else None


def decide_outdated_pods(job: Job) -> Decision | None:
    """Replaces them: worker pods in a new round, and the head under its own name once it is gone."""
    outdated = find_outdated(job)
    if not outdated:
        return None
    slots = [pod.slot for pod in outdated if pod.role == names.WORKER]
    if not slots:
        return Decision(status=GUARD, deletes=delete_all(outdated))
    round_ = job.status.round + 1
    return Decision(
        status=StatusChange(round=round_),
        creates=(
            *prerequisites(job, attempt=job.attempt),
            *worker_pods(job, attempt=job.attempt, slots=slots, round_=round_),
        ),
        deletes=delete_all(outdated),
    )


def decide_uncreated_pods(job: Job) -> Decision | None:
    """Creates the missing pods: the operator stopped before it created them, or the API server rejected them. And what
    a pod cannot mount: somebody deleted it."""
    if find_missing_mount(job) is not None:
        return Decision(status=GUARD, creates=prerequisites(job, attempt=job.attempt))
    if job.were_all_up:
        return None
    is_head_missing = job.head is None and not job.was_head_up
    if is_head_missing and any(pod.role == HEAD for pod in job.acting_pods):
        return None  # never two heads
    slots = job.empty_slots
    if not is_head_missing and not slots:
        return None
    head = (head_pod(job, attempt=job.attempt, workers=job.desired_workers),) if is_head_missing else ()
    return Decision(
        status=GUARD,
        creates=(
            *prerequisites(job, attempt=job.attempt),
            *head,
            *worker_pods(job, attempt=job.attempt, slots=slots, round_=job.status.round),
        ),
    )
