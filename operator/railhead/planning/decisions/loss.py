"""The loss of the head, and of workers that a replacement would not fix."""

from __future__ import annotations

from railhead.api import names
from railhead.contract.failure import Failure, FailureClass
from railhead.planning.attempt_end import lose_attempt
from railhead.planning.facts.failure_from_pod import (
    classify_pod,
    explain_decision,
    explain_gone,
    explain_head_loss,
    explain_loss,
)
from railhead.planning.facts.reasons import FAILED_MOUNT
from railhead.planning.facts.worker_losses import (
    ROUNDS_OUT_OF_MEMORY,
    ROUNDS_WITHOUT_CHECKPOINT,
    add_loss,
    find_lost_slots,
    find_out_of_memory,
)
from railhead.planning.job import Job
from railhead.planning.plan import Decision
from railhead.planning.pod_view import PodView


def decide_loss(job: Job) -> Decision | None:
    """Ends an attempt that is lost, and with it possibly the job."""
    head = job.head
    if head is None:
        if job.was_head_up:
            return lose_attempt(job, explain_gone(job, names.head_name(job.name, job.uid, job.attempt)))
    elif head.may_still_end(job.now):
        return Decision(wake_at=head.gone_by)  # its driver waits for one more commit, which needs the workers
    elif not head.is_live:
        return lose_attempt(job, explain_head_loss(job, head))
    if _is_driver_gone(job):
        return lose_attempt(job, explain_decision(job, _explain_driver(job)))
    found = _find_hopeless_worker(job)
    if found is None:
        return None
    worker, why = found
    return lose_attempt(job, explain_loss(job, worker, because=why))


def _is_driver_gone(job: Job) -> bool:
    """A pod cannot start without the driver of its attempt, which this version of the operator cannot create."""
    driver, found = job.status.driver, job.startup_problem
    if found is None or driver in ("", job.settings.bundle_name):
        return False
    return found[1].reason == FAILED_MOUNT and f'"{driver}"' in found[1].message


def _explain_driver(job: Job) -> Failure:
    message = (
        f"ConfigMap {job.status.driver} with the driver of attempt {job.attempt} is gone, and this version of the "
        f"operator has another one, {job.settings.bundle_name}, with which the next attempt runs"
    )
    return Failure(FailureClass.INFRASTRUCTURE, "DriverGone", message)


def _find_hopeless_worker(job: Job) -> tuple[PodView, str] | None:
    """A lost worker that a replacement would not fix, and why if its own failure does not tell."""
    lost = job.workers.lost
    misconfigured = next((pod for pod in lost if pod.outcome and _is_configuration(pod)), None)
    if misconfigured is not None:
        return misconfigured, ""
    if not lost or not find_lost_slots(job):
        return None
    losses, killed = add_loss(job), find_out_of_memory(job)
    if killed is not None and losses.out_of_memory >= ROUNDS_OUT_OF_MEMORY:
        return killed, f"{losses.out_of_memory} times in a row without a new checkpoint"
    if losses.rounds > ROUNDS_WITHOUT_CHECKPOINT:
        return lost[0], f"worker pods were lost in {losses.rounds} rounds without a new checkpoint"
    return None


def _is_configuration(pod: PodView) -> bool:
    return classify_pod(pod).class_ is FailureClass.CONFIGURATION
