"""spec.ttlSecondsAfterFinished: deletes the children of a finished job and keeps the TrainJob.

A GitOps tool that still has the TrainJob in its repository would recreate a deleted one, and it
would train again; so only objects that the tool does not know are deleted.
"""

from __future__ import annotations

from railhead.contract.times import format_time
from railhead.planning.children import removals
from railhead.planning.decisions.finished import find_last_checkpoint, may_commit
from railhead.planning.facts.deadlines import clean_up_due
from railhead.planning.job import Job
from railhead.planning.plan import Decision, delete_all
from railhead.planning.status_change import StatusChange


def decide_clean_up(job: Job) -> Decision | None:
    """Once, after the TTL. The status records it: the operator does not watch all children, such as Secrets."""
    due = clean_up_due(job)
    if due is None or due > job.now:
        return None
    head = job.head
    if head is not None and (may_commit(job, head) or find_last_checkpoint(job)):
        return None  # record its last report first
    deletes = delete_all(job.pods)
    if job.status.clean_up_time:
        return Decision(deletes=deletes)
    done = StatusChange(clean_up_time=format_time(job.now))
    return Decision(deletes=deletes, removes=removals(job), last=done)
