"""Pods that do not belong to the current attempt."""

from __future__ import annotations

from railhead.planning.job import Job
from railhead.planning.plan import Decision, delete_all


def decide_stale_pods(job: Job) -> Decision | None:
    """Pods of an earlier attempt end before anything else is done: never two heads.

    Terminated ones are just deleted (the operator stopped before it could), and so is the older of
    two pods in one slot (two operators, one with a stale view).
    """
    earlier = [pod for pod in job.pods if pod.attempt < job.attempt]
    deletes = delete_all(pod for pod in (*earlier, *job.workers.duplicates) if pod.name not in job.denied)
    return Decision(deletes=deletes) if deletes or job.stale_pods else None
