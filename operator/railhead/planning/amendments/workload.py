"""The job's Workload: created while the job is queued, and brought in line with it at one change per pass.

What ends a pass earlier is safe: each change follows from the Workload and the job as they are, and the answer to it
makes the next pass. Kueue gives the quota to other jobs when the Workload says that it holds none, so that is only said
when no pod of the job can act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from railhead.api import names
from railhead.api.conditions import Condition, merge_conditions
from railhead.api.status import RESTING, Phase
from railhead.contract.times import format_time, parse_time
from railhead.planning.children import create_workload
from railhead.planning.facts.admission import build_request, choose_queue, count_assigned
from railhead.planning.facts.reasons import MAX_TIME_INVALID, PRIORITY_CLASS_MISSING, QUEUE_MISSING, QUEUE_NAME_CONFLICT
from railhead.planning.job import Job
from railhead.planning.observed import Observed, Remove
from railhead.planning.plan import Create, Decision, WorkloadPatch
from railhead.planning.queue_view import (
    ADMITTED,
    EVICTED,
    FAILED_TO_START,
    FINISHED,
    NODE_FAILURES,
    PODS_READY,
    QUOTA_RESERVED,
    REQUEUED,
    WorkloadView,
)
from railhead.planning.wanted_status import to_json
from railhead.resources.queues.kueue import FINALIZER, WORKERS, compute_digest

MAXIMUM_PASSED = "DeactivatedDueToMaximumExecutionTimeExceeded"
REQUEUED_BY = ("Preempted", NODE_FAILURES)  # Kueue itself queues the others again, when their time has come
# What the job asks for is not known.
UNASKED = (QUEUE_MISSING, QUEUE_NAME_CONFLICT, PRIORITY_CLASS_MISSING, MAX_TIME_INVALID)
NO_RESERVATION = "NoReservation"


def keep_workload(job: Job, decision: Decision) -> Decision:
    """Adds the next change of the Workload."""
    if not job.queue.are_workloads_watched:
        return decision
    phase = decision.status_after(job).phase
    # First, since a Workload that is over must be let go even if the job's queue has changed.
    ended = end_workload(job, decision)
    if ended is not decision or job.status.is_finished or job.is_deleting or phase in ("Succeeded", "Failed"):
        return ended
    workload = job.queue.workload
    if workload is None:
        return replace(decision, creates=(*decision.creates, *_create(job, phase)))
    if workload.is_deleting:
        return decision
    if _is_unwanted(job, workload, decision, phase):
        return replace(
            decision, removes=(*decision.removes, Remove("Workload", workload.name, version=workload.version))
        )
    return replace(decision, workload=_find_patch(job, workload, decision, phase))


def end_workload(observed: Observed, decision: Decision) -> Decision:
    """Ends the Workload of a finished or deleted job, and lets one go that is deleted, once no pod can act; also if the
    spec is not valid."""
    workload = observed.queue.workload
    phase = observed.status.phase
    is_over = observed.status.is_finished or observed.is_deleting
    # Kueue gives the quota away as soon as the Workload is over, so no pod may act any more.
    if workload is None or observed.acting_pods or not (is_over or workload.is_deleting):
        return decision
    if is_over and not workload.has(FINISHED):
        reason = "Succeeded" if phase == "Succeeded" else "Failed"
        said = "The TrainJob is deleted"
        if observed.status.is_finished:
            said = f"The TrainJob ended in phase {phase}"
        return replace(decision, workload=_patch(workload, _make(observed, FINISHED, True, reason, said)))
    if workload.has_finalizer:
        return replace(decision, workload=release(workload))
    return decision


def release(workload: WorkloadView) -> WorkloadPatch:
    """Removes the finalizer: garbage collection may delete the Workload."""
    left = [each for each in workload.finalizers if each != FINALIZER]
    return WorkloadPatch(workload.name, workload.version, {"metadata": {"finalizers": left}})


def _create(job: Job, phase: Phase) -> tuple[Create, ...]:
    obstacle = job.obstacle
    if phase != "Queued" or obstacle is None or obstacle.reason in UNASKED:
        return ()
    return (create_workload(job),)


def _is_unwanted(job: Job, workload: WorkloadView, decision: Decision, phase: Phase) -> bool:
    """Returns whether the job asks for something else now, or for nothing since it is suspended, or waits for
    another job's checkpoint. A new Workload would undo an administrator's hold, whenever that was set."""
    # The label or the field was removed while the job rested, or the attempt began without a queue.
    if not choose_queue(job):
        return True
    begins = any(create.kind == "Pod" for create in decision.creates)
    if not workload.is_active or job.acting_pods or begins or not job.is_at_rest:
        return False
    # A new one could not start either.
    is_over = workload.has(FINISHED) and not workload.could_not_start
    if job.spec.suspend or phase not in RESTING or is_over:
        return True
    return job.queue.state == "served" and workload.digest != compute_digest(build_request(job))


def _find_patch(job: Job, workload: WorkloadView, decision: Decision, phase: Phase) -> WorkloadPatch | None:
    problem = job.obstacle
    if workload.is_admitted and problem is not None and problem.reason == FAILED_TO_START:
        return _patch(workload, _make(job, FINISHED, True, FAILED_TO_START, problem.message))
    if workload.is_admitted and problem is not None and problem.reason == NODE_FAILURES:
        return _patch(workload, _make(job, EVICTED, True, NODE_FAILURES, problem.message))
    if workload.has(QUOTA_RESERVED) and workload.has(EVICTED):
        if job.acting_pods or phase not in RESTING:
            return None
        return _give_back(job, workload)
    if phase in RESTING or not workload.is_admitted:
        return None
    return _reclaim(job, workload, decision) or _show_readiness(job, workload)


def _reclaim(job: Job, workload: WorkloadView, decision: Decision) -> WorkloadPatch | None:
    """Gives back the quota of workers that an elastic job has given up. The status has said before that no attempt of
    this admission uses it again: Kueue lets the number only grow, and subtracts it from what the Workload asked for."""
    admission = job.status.admission
    new = decision.status_after(job)
    if admission is None or not job.is_elastic or new.admission != admission or new.attempt != job.attempt:
        return None
    kept = admission.find(WORKERS).count
    left = workload.asked_workers - kept
    pods = sum(pod.role == names.WORKER for pod in job.acting_pods)
    if pods > kept or kept >= count_assigned(workload) or left <= workload.reclaimed_workers:
        return None
    status = {"reclaimablePods": [{"name": WORKERS, "count": left}]}
    return WorkloadPatch(workload.name, workload.version, {"status": status}, subresource="status")


def _give_back(job: Job, workload: WorkloadView) -> WorkloadPatch:
    """Gives the quota back as Kueue's own integrations do it (pkg/controller/jobframework/reconciler.go,
    handle eviction)."""
    evicted = workload.find(EVICTED)
    assert evicted is not None
    conditions = [
        _make(job, QUOTA_RESERVED, False, "Pending", evicted.message),
        _make(job, ADMITTED, False, NO_RESERVATION, "The workload has no reservation"),
        _make(job, REQUEUED, evicted.reason in REQUEUED_BY, evicted.reason, evicted.message),
    ]
    if workload.has(PODS_READY):
        conditions.append(_make(job, PODS_READY, False, "WaitForStart", "Not all pods are ready or succeeded"))
    status = {"admission": None, "reclaimablePods": None, **_count_time(job, workload, evicted.reason)}
    return _patch(workload, *conditions, more=status)


def _count_time(job: Job, workload: WorkloadView, reason: str) -> dict[str, object]:
    """Adds the time of this admission to the Workload's, for its maximum execution time. Kueue itself adds it only when
    it changes Admitted (pkg/workload/admissionchecks.go). When the maximum has passed, Kueue clears the time, so that
    the next admission has all of it again."""
    admitted = workload.find(ADMITTED)
    since = None
    if admitted is not None and admitted.is_true:
        since = parse_time(admitted.last_transition_time)
    if since is None or reason == MAXIMUM_PASSED:
        return {}
    return {
        "accumulatedPastExecutionTimeSeconds": workload.past_seconds + max(0, int((job.now - since).total_seconds()))
    }


def _show_readiness(job: Job, workload: WorkloadView) -> WorkloadPatch | None:
    """Tells Kueue's waitForPodsReady whether the pods run.

    What it says at first is that of a Workload without the condition.
    """
    known = workload.find(PODS_READY)
    was_ready = known is not None and known.is_true
    is_ready = job.are_enough_up
    if was_ready == is_ready:
        return None
    is_again = known is not None and known.reason == "WaitForRecovery"
    if is_ready:
        condition = _make(job, PODS_READY, True, "Recovered" if is_again else "Started", "All pods are ready")
    else:
        condition = _make(job, PODS_READY, False, "WaitForRecovery", "Pods were lost and are being replaced")
    return _patch(workload, condition)


def _make(observed: Observed, type_: str, is_true: bool, reason: str, message: str) -> Condition:
    return Condition(
        type=type_,
        status="True" if is_true else "False",
        reason=reason,
        message=message,
        last_transition_time=format_time(observed.now),
    )


def _patch(workload: WorkloadView, *conditions: Condition, more: Mapping[str, object] | None = None) -> WorkloadPatch:
    """Returns a patch of the conditions. `more`: other fields of the status."""
    status = {"conditions": to_json(merge_conditions(workload.conditions, conditions)), **(more or {})}
    return WorkloadPatch(workload.name, workload.version, {"status": status}, subresource="status")
