"""A TrainJob that is deleted and still exists: a finalizer keeps it, such as that of a backup tool or of a queue.

Garbage collection leaves its pods alone until the object is gone, so the job is stopped like a suspended one: its
driver commits a last checkpoint, then its pods go, and none follows. With foreground deletion garbage collection
deletes all pods itself, and the operator only waits for them.
"""

from __future__ import annotations

from railhead.planning.decisions.suspend import wind_down
from railhead.planning.job import Job
from railhead.planning.plan import Decision


def decide_deleted(job: Job) -> Decision | None:
    """Winds down a deleted job that has not finished; nothing starts it again."""
    return wind_down(job) if job.is_deleting else None
