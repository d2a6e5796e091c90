"""Creates what the status announces and what does not exist, under the same names as before."""

from __future__ import annotations

from railhead.api.names import HEAD
from railhead.planning.children import find_missing_mount, head_pod, prerequisites, worker_pods
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.status_change import GUARD


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
