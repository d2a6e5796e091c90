"""The loss of the head, and of workers that a replacement would not fix."""

from __future__ import annotations

from railhead.api import names
from railhead.contract.failure import FailureClass
from railhead.planning.attempt_end import lose_attempt
from railhead.planning.facts.failure_from_pod import classify_pod, explain_gone, explain_head_loss, explain_loss
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import PodView

ROUNDS_PER_ATTEMPT = 20


def decide_loss(job: Job) -> Decision | None:
    """Ends an attempt that is lost, and with it possibly the job."""
    head = job.head
    if head is None:
        if job.was_head_up:
            failure = explain_gone(job, names.head_name(job.name, job.uid, job.attempt))
            return lose_attempt(job, failure, outcome=job.outcome)
    elif head.may_still_end(job.now):
        return Decision(wake_at=head.gone_by)  # its driver waits for one more commit, which needs the workers
    elif not head.is_live:
        return lose_attempt(job, explain_head_loss(job, head), outcome=job.outcome)
    worker = _find_hopeless_worker(job)
    return lose_attempt(job, explain_loss(job, worker), outcome=head.outcome if head else None) if worker else None


def _find_hopeless_worker(job: Job) -> PodView | None:
    """A lost worker whose replacement would fail the same way: a configuration error, or too many rounds."""
    lost = job.workers.lost
    misconfigured = next((pod for pod in lost if pod.outcome and _is_configuration(pod)), None)
    if misconfigured is None and lost and job.empty_slots and job.status.round >= ROUNDS_PER_ATTEMPT:
        return lost[0]
    return misconfigured


def _is_configuration(pod: PodView) -> bool:
    return classify_pod(pod).class_ is FailureClass.CONFIGURATION
