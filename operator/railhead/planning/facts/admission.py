"""Whether the job's queue lets it run, why not, and what the queue gave it.

A job at rest needs an admission of what it asks for now. An attempt that has begun keeps the queue that admitted it,
whatever the labels and the spec say by then, and continues while Kueue is away: only an eviction, an administrator's
hold or the end of its Workload stops it.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api.fit import fit
from railhead.api.queue import AdmissionStatus
from railhead.api.spec import TrainJobSpec
from railhead.contract.numbers import MAX_INT32
from railhead.planning.facts.avoided_nodes import list_avoided
from railhead.planning.facts.pod_sets import CannotStart, check_start, merge_pod_set, read_assignment
from railhead.planning.facts.quota import explain_rejection
from railhead.planning.facts.reasons import (
    DEACTIVATED,
    FLAVOR_MISSING,
    MAX_TIME_INVALID,
    PRIORITY_CLASS_MISSING,
    QUEUE_MISSING,
    QUEUE_NAME_CONFLICT,
    QUEUED,
    UNSATISFIED,
)
from railhead.planning.job import Job
from railhead.planning.observed import Observed
from railhead.planning.pod_view import Problem
from railhead.planning.queue_view import (
    ADMITTED,
    EVICTED,
    FAILED_TO_START,
    FINISHED,
    NODE_FAILURES,
    QUOTA_RESERVED,
    WorkloadView,
)
from railhead.resources.pod_builder import PodSettings, WorkerPodBuilder, build_head_pod
from railhead.resources.queues.kueue import HEAD, MAX_SECONDS, WORKERS, QueueRequest, compute_digest

MOST_SECONDS = MAX_INT32
NAMED = 3
# A pod keeps the gate with which it was created.
EXEMPT = (
    "To exempt the job's pods, have TrainJob.v1alpha1.railhead.dev added to integrations.externalFrameworks of Kueue's "
    "configuration, and name the job's queue by its label kueue.x-k8s.io/queue-name; or have removed what takes the "
    "pods: a LocalQueue named default, manageJobsWithoutQueueName, or the pods' own label. Then suspend and resume the "
    "job"
)
MISSING = {
    "off": "this operator does not use Kueue; install the chart with queue.kueue.enabled=true, or remove the job's "
    "queue while the job has no pods",
    "missing": "the API server has no Workloads of kueue.x-k8s.io/v1beta2, or does not let the operator watch them; "
    "install Kueue, and the job asks for quota by itself",
    "partial": "the API server has no ResourceFlavors or no WorkloadPriorityClasses of kueue.x-k8s.io/v1beta2, or does "
    "not let the operator watch them; install Kueue, and the job continues by itself",
    "unknown": "the API server has not answered yet whether it has Workloads of kueue.x-k8s.io/v1beta2",
}


def add_queue_obstacle(observed: Observed, spec: TrainJobSpec) -> Job:
    """Returns the job with its queue's obstacle, which several decisions of a pass need."""
    job = Job.of(observed, spec)
    obstacle = find_obstacle(job)
    if obstacle:
        return replace(job, obstacle=obstacle)
    return job


def choose_queue(job: Job) -> str:
    """Returns the name of the job's LocalQueue, or an empty string without one."""
    if job.is_at_rest:
        return job.spec.queue_name or job.queue.queue_label
    if job.status.admission:
        return job.status.admission.queue
    return ""


def find_obstacle(job: Job) -> Problem | None:
    """Returns why the job must have no pods by its queue; None = it may run."""
    queue = choose_queue(job)
    if not queue:
        return None
    if not job.is_at_rest:
        if job.queue.are_workloads_watched:
            return _explain(job, queue)
        return None
    if job.spec.queue_name and job.queue.queue_label not in ("", job.spec.queue_name):
        message = (
            f"spec.scheduling.queueName is {job.spec.queue_name}, but the label kueue.x-k8s.io/queue-name is "
            f"{job.queue.queue_label}; remove one of them, or make them equal"
        )
        return Problem(QUEUE_NAME_CONFLICT, message)
    if job.queue.state != "served":
        return Problem(QUEUE_MISSING, f"The job waits for LocalQueue {queue}: {MISSING[job.queue.state]}")
    return _find_wrong_label(job) or _explain(job, queue)


def _find_wrong_label(job: Job) -> Problem | None:
    if job.queue.seconds_label and _find_most_seconds(job) is None:
        message = f"The label {MAX_SECONDS} is {job.queue.seconds_label}; it must be a number of seconds from 1 to "
        return Problem(MAX_TIME_INVALID, f"{message}{MOST_SECONDS}")
    if not job.queue.priority_label or job.queue.priority is not None:
        return None
    name = job.queue.priority_label
    message = f"The label kueue.x-k8s.io/priority-class names {name}, but there is no such WorkloadPriorityClass"
    return Problem(PRIORITY_CLASS_MISSING, message)


def _find_most_seconds(job: Job) -> int | None:
    """Returns the label's value as Kueue reads it, None without a valid one."""
    label = job.queue.seconds_label
    seconds = int(label) if label.isascii() and label.isdigit() else 0
    if 0 < seconds <= MOST_SECONDS:
        return seconds
    return None


def _explain(job: Job, queue: str) -> Problem | None:
    """Returns Kueue's reason, as far as it gives one."""
    workload = job.queue.workload
    if workload is None and job.is_at_rest and job.rejection is not None:
        # The condition has these words while the create is held back.
        return explain_rejection(job, job.rejection.problem)
    if workload is None:
        return Problem(QUEUED, f"The job asks LocalQueue {queue} for quota")
    if not workload.is_admitted:
        return explain_workload(workload)
    if not job.is_at_rest:
        return _find_avoided_assignment(job, workload)
    request = build_request(job)
    # Admitted for another shape than the job has now: its quota would not fit the pods.
    if workload.digest != compute_digest(request):
        return Problem(QUEUED, f"The job has changed, and asks LocalQueue {queue} for quota again")
    return _find_start_problem(job, workload, request)


def explain_workload(workload: WorkloadView) -> Problem:
    """Returns why a Workload that is not admitted waits, by its conditions."""
    if workload.could_not_start and not workload.is_deleting:
        finished = workload.find(FINISHED)
        assert finished is not None
        return Problem(
            FAILED_TO_START, f"{finished.message}. Then delete Workload {workload.name}, and the job asks again"
        )
    if workload.is_deleting or workload.has(FINISHED):
        return Problem(QUEUED, f"Workload {workload.name} is over; the job asks for quota with another one")
    evicted, admitted, quota = (workload.find(each) for each in (EVICTED, ADMITTED, QUOTA_RESERVED))
    said = evicted if evicted is not None and evicted.is_true else None
    if not workload.is_active:
        if said and said.reason.startswith(DEACTIVATED):
            reason = said.reason
        else:
            reason = DEACTIVATED
        why = said.message if said and said.reason == reason else "spec.active is false"
        message = f"Workload {workload.name} is not active: {why}. Set its spec.active to true to queue the job again"
        return Problem(reason, message)
    if quota is not None and not quota.is_true:
        return Problem(QUEUED if quota.reason == "Pending" else quota.reason, quota.message)
    if said is not None:
        return Problem(said.reason, said.message)
    if quota is not None:
        message = f"Quota is reserved in ClusterQueue {workload.cluster_queue}, but admission checks are not satisfied"
        reason = admitted.reason if admitted and admitted.reason else UNSATISFIED
        return Problem(reason, (admitted.message if admitted else "") or message)
    return Problem(QUEUED, f"Kueue has not looked at Workload {workload.name} yet")


def explain_held_pod(job: Job, message: str) -> str:
    """Returns why Kueue manages a pod of the job by itself, and what ends that.

    Kueue's webhook for pods leaves out a pod only if it knows its owner, and the owner's label names a queue
    (pkg/controller/jobframework/reconciler.go: FindAncestorJobManagedByKueue). No field of a pod exempts it.
    """
    admission = job.status.admission
    why = "so each pod of the job waits for quota by itself"
    if admission is not None:
        why = f"although LocalQueue {admission.queue} has admitted the whole job"
    return f"{message}, {why}. {EXEMPT}"


def _find_avoided_assignment(job: Job, workload: WorkloadView) -> Problem | None:
    """Returns the problem that Kueue assigned a node which the job avoids by now, and that the job needs a pod, which
    could run nowhere. Only another Workload tells Kueue of it, since it holds the node for healthy."""
    if not _lacks_pods(job):
        return None
    assigned = {node for each in workload.assignments for node in each.nodes}
    avoided = [node for node in list_avoided(job) if node in assigned]
    if not avoided or workload.digest == compute_digest(build_request(job)):
        return None
    message = (
        f"Kueue assigned pods to {', '.join(avoided[:NAMED])}, which the job avoids (status.avoidedNodes); it asks "
    )
    return Problem(NODE_FAILURES, f"{message}for quota on other nodes")


def _lacks_pods(job: Job) -> bool:
    """Returns whether the attempt cannot train with the pods that it has."""
    is_head_lost = job.is_attempt_lost or job.head is None or not job.head.is_live
    return is_head_lost or (bool(job.empty_slots) and not job.are_enough_up)


def _find_start_problem(job: Job, workload: WorkloadView, request: QueueRequest) -> Problem | None:
    """Returns why the pods cannot have what the queue gave them. A flavor that is gone later plays no part: the attempt
    has what it needs of it."""
    gone = [name for each in workload.assignments for name in each.flavors if name not in job.queue.flavors]
    if gone:
        return Problem(FLAVOR_MISSING, f"Kueue chose ResourceFlavor {gone[0]}, which does not exist")
    try:
        check_start(job.queue, workload, head=request.head, worker=request.worker)
    except CannotStart as error:
        return Problem(FAILED_TO_START, str(error))
    return None


def choose_admission(job: Job) -> AdmissionStatus | None:
    """Returns what the queue gives an attempt that begins now; None for a job without a queue.

    It is what the last attempt had if Kueue does not say anything else.
    """
    workload = job.queue.workload
    view = job.queue
    if not choose_queue(job):
        return None
    if view.state != "served" or workload is None or not workload.is_admitted:
        return job.status.admission
    if any(name not in view.flavors for each in workload.assignments for name in each.flavors):
        return job.status.admission
    try:
        head = merge_pod_set(view, workload, HEAD, count=1)
        workers = merge_pod_set(view, workload, WORKERS, count=_keep_workers(job))
    except CannotStart:
        return job.status.admission  # of an attempt that follows another one; see `find_obstacle` for the others
    values = {"queue": workload.queue, "cluster_queue": workload.cluster_queue, "pod_sets": [head, workers]}
    return fit(AdmissionStatus, values)


def count_assigned(workload: WorkloadView) -> int:
    """Returns for how many workers Kueue admitted the Workload."""
    count = read_assignment(workload, WORKERS).count
    if count is None:
        return workload.asked_workers
    return count


def _keep_workers(job: Job) -> int:
    """Returns for how many workers an attempt that begins now has quota. What an elastic job has given up in an earlier
    attempt of the same admission is not taken back: the queue may have given it to others."""
    workload = job.queue.workload
    before = job.status.admission
    assert workload is not None
    # Partial admission gives fewer than were asked for, and reclaimed ones belong to other jobs already.
    kept = min(count_assigned(workload), workload.asked_workers - workload.reclaimed_workers)
    if not job.is_elastic:
        return kept
    if before is not None and not job.is_at_rest:
        given_up = before.find(WORKERS).count
    else:
        given_up = kept
    return min(kept, given_up, job.requested_workers)


def count_workers(job: Job, admission: AdmissionStatus | None) -> int:
    """Returns with how many worker pods an attempt begins that has this admission."""
    wanted = job.requested_workers
    if admission is not None and job.is_elastic:
        return min(wanted, admission.find(WORKERS).count)
    return wanted


def build_request(job: Job) -> QueueRequest:
    """Returns what the job asks of its queue: the pods without what changes from attempt to attempt."""
    # Always attempt 1, slot 0 and round 0, or the digest of the request would change with each attempt.
    attempt = PodSettings(job.ref, job.spec, 1, job.own_mounts, avoided_nodes=list_avoided(job), pod_user=job.pod_user)
    workers = job.requested_workers
    head = build_head_pod(attempt, report_url=job.settings.report_url, status=job.status, worker_pods=workers)
    least_workers = None
    if job.is_elastic:
        least_workers = job.least_workers
    return QueueRequest(
        queue=choose_queue(job),
        priority_class=job.queue.priority_label,
        priority=job.queue.priority or 0,
        most_seconds=_find_most_seconds(job),
        workers=workers,
        least_workers=least_workers,
        head=head,
        worker=WorkerPodBuilder(attempt).build(slot=0, round_=0),
    )
