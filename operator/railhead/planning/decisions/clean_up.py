"""spec.keepPodsSeconds and spec.ttlSecondsAfterFinished: what is deleted after the end of a job.

The first deletes the children, which a GitOps tool does not know, and keeps the TrainJob. The
second deletes the TrainJob, as for a batch/v1 Job; garbage collection deletes the children.
"""

from __future__ import annotations

from datetime import datetime

from railhead.contract.times import format_time
from railhead.planning.children import driver_removal, removals
from railhead.planning.decisions.finished import find_last_checkpoint, may_commit
from railhead.planning.facts.deadlines import clean_up_due, deletion_due
from railhead.planning.job import Job
from railhead.planning.plan import Decision, DeleteJob, delete_all
from railhead.planning.status_change import StatusChange


def decide_deletion(job: Job) -> Decision | None:
    """The precondition keeps a job that changed meanwhile, for example to a longer TTL."""
    if job.is_deleting or _is_early(job, deletion_due(job)):
        return None
    return Decision(delete_job=DeleteJob(job.uid, job.version), removes=driver_removal(job))


def decide_clean_up(job: Job) -> Decision | None:
    """Once. The status records it: the operator does not watch all children, such as Secrets."""
    if _is_early(job, clean_up_due(job)):
        return None
    deletes = delete_all(job.pods)
    if job.status.clean_up_time:
        return Decision(deletes=deletes)
    done = StatusChange(clean_up_time=format_time(job.now))
    return Decision(deletes=deletes, removes=(*removals(job), *driver_removal(job)), last=done)


def _is_early(job: Job, due: datetime | None) -> bool:
    """Before its time, or before the status has the last report of the head."""
    if due is None or due > job.now:
        return True
    return job.head is not None and (may_commit(job, job.head) or find_last_checkpoint(job) is not None)
