"""Pods that avoid a node that the job avoids no more: the affinity of a pod cannot be changed.

Only pods that the scheduler finds no node for, so nothing is lost and nothing counted.
"""

from __future__ import annotations

from railhead.api import names
from railhead.planning.children import prerequisites, worker_pods
from railhead.planning.facts.avoided_nodes import find_outdated
from railhead.planning.job import Job
from railhead.planning.plan import Decision, delete_all
from railhead.planning.status_change import GUARD, StatusChange


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
