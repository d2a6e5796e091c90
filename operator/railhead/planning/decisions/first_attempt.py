"""Starts a job's first attempt, or resumes the one that its pods belong to."""

from __future__ import annotations

from dataclasses import replace

from railhead.api.names import HEAD
from railhead.planning.attempt_begin import begin_attempt
from railhead.planning.job import Job
from railhead.planning.plan import Decision


def decide_first_attempt(job: Job) -> Decision | None:
    """Starts the first attempt of a job that never ran.

    If somebody wiped the status of a running job or set it back, its pods show which attempt it is
    in: that attempt is resumed, and its children are found by their names. If the view of the job is
    just stale, the compare fails, and nothing is done.
    """
    alive = job.acting_pods
    later = max((pod.attempt for pod in alive), default=0) > job.attempt
    if job.attempt > 0 and not later:
        return None
    heads = [pod.attempt for pod in alive if pod.role == HEAD and pod.attempt > job.attempt]
    attempt = max([1, *(heads or [pod.attempt for pod in alive])])
    decision = begin_attempt(job, attempt=attempt, phase="Pending" if attempt == 1 else "Restarting")
    return replace(decision, creates=()) if job.attempt > 0 else decision
