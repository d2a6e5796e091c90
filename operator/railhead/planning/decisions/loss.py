"""How an attempt is lost: with its head, with workers that a replacement would not fix, also since the head's own
network is broken, or by a deadline.

The driver misses a worker pod within seconds; Kubernetes marks the pods of a node that does not respond after 40 s or
more. Until then a head that is cut off and a rack without power look the same. Nothing waits for the difference:
training stands still either way, and a new attempt is right for both, since most of the pods must be made again. Its
price for the rack is that the head and the pods that are left start again too. Once Kubernetes has marked the pods, or
something has deleted or ended them, they are no evidence against the head.

Deadlines end the job, an attempt that does not train in time, and an attempt that holds some of its pods and cannot get
the others, since the API server rejects them or they find no node. An incomplete attempt releases all its pods, so that
it does not hold GPUs for long. The next attempt follows with a growing delay, and no budget counts it. Each job has its
own delay: of two that each held half of a quota or of the nodes, the one that returns first gets all it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railhead.api import names
from railhead.api.status import FailureStatus
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.report import ACCELERATOR_NOT_THERE, MAX_LOST_PODS
from railhead.planning.attempt import fail_job, lose_attempt
from railhead.planning.children import find_missing_mount
from railhead.planning.facts.deadlines import (
    active_due,
    find_unread,
    find_waiting,
    give_up_due,
    held_since,
    list_placed,
    release_due,
    startup_due,
)
from railhead.planning.facts.failure_budget import is_disruption_limit_reached
from railhead.planning.facts.lost_workers import (
    ROUNDS_WITHOUT_CHECKPOINT,
    add_loss,
    count_losses,
    find_own_fault,
    is_disrupted,
    list_lost_slots,
)
from railhead.planning.facts.pod_failure import (
    LossReason,
    blame_application,
    classify_pod,
    describe_refusal,
    explain_decision,
    explain_gone,
    explain_head_loss,
    explain_kept_head,
    explain_loss,
    is_removed_unstarted,
)
from railhead.planning.facts.quota import explain_rejection
from railhead.planning.facts.reasons import CANNOT_START, NODE_REFUSED_POD, PARTIAL_START
from railhead.planning.facts.settlement import IN_A_ROW
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.pod_view import PodView


def decide_loss(job: Job) -> Decision | None:
    """Ends an attempt that is lost, and with it possibly the job."""
    head = job.head
    if head is None:
        if job.was_head_up:
            return lose_attempt(job, explain_gone(job, names.head_name(job.name, job.uid, job.attempt)))
    elif is_removed_unstarted(job, head):
        # The kubelet marks it as Failed before it is gone, which says nothing of the attempt. Once it is gone,
        # `decide_uncreated_pods` creates it again under its own name.
        if head.gone_by is not None and job.now < head.gone_by:
            return Decision(wake_at=head.gone_by)
        return lose_attempt(job, explain_kept_head(job, head))
    # A head that is being deleted may end with success, or with one more checkpoint, until its grace period is over.
    elif head.may_still_end(job.now):
        # The head's driver waits for one more commit, which needs the workers.
        return Decision(wake_at=head.gone_by)
    elif not head.is_live:
        lost = lose_attempt(job, explain_head_loss(job, head))
        # A refusal is of interest to whoever operates the nodes, so it gets an Event of its own.
        if not head.is_refused:
            return lost
        refusal = Event("Warning", NODE_REFUSED_POD, describe_refusal(head))
        return replace(lost, events=(refusal, *lost.events))
    gone = _find_gone_child(job)
    if gone is not None:
        return lose_attempt(job, explain_decision(job, gone))
    hopeless = _find_hopeless_workers(job)
    if hopeless is None:
        return None
    return lose_attempt(job, hopeless)


def _find_gone_child(job: Job) -> Failure | None:
    """Returns why a pod of this attempt cannot start any more: a child is gone that this operator cannot make again."""
    gone = find_missing_mount(job)
    if gone is None:
        return None
    mounts = job.mounts_of(job.attempt)
    own = job.own_mounts
    # This operator makes the very same object again, in `decide_uncreated_pods`.
    if gone in (own.driver, own.input, own.secret):
        return None
    reason, what = {
        mounts.driver: (LossReason.DRIVER_GONE, f"ConfigMap {gone} with the driver"),
        mounts.input: (LossReason.INPUT_GONE, f"ConfigMap {gone} with the driver's input"),
        mounts.secret: (LossReason.SECRET_GONE, f"Secret {gone} with the token of the Ray cluster"),
    }[gone]
    message = (
        f"{what} of attempt {job.attempt} is gone; another version of the operator made it, and the next attempt gets "
        "what this version makes"
    )
    return Failure(FailureClass.INFRASTRUCTURE, reason, message)


def _find_hopeless_workers(job: Job) -> FailureStatus | None:
    """Returns why a replacement of the lost workers would not help."""
    lost = job.workers.lost
    for pod in lost:
        if pod.outcome and classify_pod(pod).class_ is FailureClass.CONFIGURATION:
            return explain_loss(job, pod)
    # Empty also when the status counts this loss already: judging it again would count it twice.
    slots = list_lost_slots(job)
    if not slots:
        return None
    # Before the pods are judged: if the head is at fault, the workers' ends say nothing of the job.
    cut_off = find_cut_off(job)
    if cut_off is not None:
        return explain_decision(job, cut_off)
    # With the round that would begin now, since the limits are about that one.
    losses = add_loss(job)
    faulty = find_own_fault(job)
    if faulty is not None and losses.own_fault >= IN_A_ROW:
        return blame_application(explain_loss(job, faulty), times=losses.own_fault)
    # Replacing the pods would be a disruption, which the limit does not allow any more; `settle` reports that of a
    # lost attempt.
    if is_disruption_limit_reached(job) and is_disrupted(job):
        return _explain_any(job, slots)
    if lost and losses.rounds > ROUNDS_WITHOUT_CHECKPOINT:
        why = f"worker pods were lost in {losses.rounds} rounds without a new checkpoint"
        return explain_loss(job, next((pod for pod in lost if not pod.is_refused), lost[0]), because=why)
    return None


def _explain_any(job: Job, slots: Sequence[int]) -> FailureStatus:
    """Returns the loss of one of the pods lost now, which may be gone without a trace."""
    pod = next((pod for pod in job.workers.lost if pod.slot in slots), None)
    name = names.worker_name(job.name, job.uid, attempt=job.attempt, slot=slots[0], round_=job.status.round)
    if pod:
        return explain_loss(job, pod)
    return explain_gone(job, name)


def find_cut_off(job: Job) -> Failure | None:
    """Finds a head that misses more than half of the workers that run on other nodes, on two nodes or more; or on
    fewer nodes those that have replaced others since the newest checkpoint. A head that reaches enough to train is
    fine."""
    head = job.head
    missed = _list_missed(job)
    if head is None or not missed or job.workers_up >= job.least_workers:
        return None
    # Pods on the head's own node need no network, so they say nothing of it.
    reached = sum(pod.is_up and pod.node != head.node for pod in job.workers.live)
    silent = sum(pod.is_live and pod.is_silent for pod in job.workers.lost)
    # A full report may leave some out.
    are_most = len(missed) > reached + silent or len(missed) >= MAX_LOST_PODS
    is_again = count_losses(job).rounds > 0 and any(pod.round for pod in missed)
    are_on_several = len({pod.node for pod in missed}) > 1
    if not are_most or not (is_again or are_on_several):
        return None
    message = (
        f"{head.place} does not reach {len(missed)} of {job.desired_workers} worker pods, and Kubernetes reports them "
        "as ready; check the network of that node"
    )
    return Failure(FailureClass.INFRASTRUCTURE, LossReason.HEAD_CUT_OFF, message, suspect_pod=head.name)


def _list_missed(job: Job) -> list[PodView]:
    """Returns worker pods that do not answer the driver, although their nodes respond."""
    warning = job.status.progress.warning
    if warning is not None and warning.reason == ACCELERATOR_NOT_THERE:
        # The driver reaches them, and does not want them.
        return []
    return [pod for pod in job.workers.lost if pod.is_live and not pod.is_silent]


def decide_active_deadline(job: Job) -> Decision | None:
    """Fails a job after spec.activeDeadlineSeconds; `decide_finished` then terminates its head first."""
    due = active_due(job)
    if due is None or due > job.now:
        return None
    # The deadline may pass between the driver's success and this pass.
    if job.has_succeeded:
        # It finished in time.
        return None
    limit = job.spec.active_deadline_seconds
    message = f"The job was active for {limit} s (spec.activeDeadlineSeconds) without finishing"
    failure = explain_decision(job, Failure(FailureClass.DEADLINE_EXCEEDED, "ActiveDeadlineExceeded", message))
    # A final class fails the job although restart budgets are left.
    return fail_job(job, failure, because=failure.class_.policy.final)


def decide_startup_deadline(job: Job) -> Decision | None:
    """Ends an attempt that does not train in time: all pods are released, and the next attempt backs off."""
    due = startup_due(job)
    if due is None or due > job.now:
        return None
    waiting = job.status.waiting
    field = "startDeadlineSeconds"
    if waiting and waiting.again:
        field = "restartDeadlineSeconds"
    found = job.startup_problem
    why = ""
    if found:
        why = f": pod {found[0].name} cannot start ({found[1].reason}: {found[1].message[:600]})"
    message = f"Training did not start within spec.{field}{why}"
    # StartDeadlineExceeded or RestartDeadlineExceeded: reasons of conditions begin with a capital.
    reason = field[0].upper() + field.removesuffix("Seconds")[1:] + "Exceeded"
    failure = explain_decision(job, Failure(FailureClass.STARTUP, reason, message), pod=found[0] if found else None)
    return lose_attempt(job, failure)


def decide_partial_gang(job: Job) -> Decision | None:
    """Ends an attempt that has waited long enough for a rejected pod."""
    due = give_up_due(job)
    since = held_since(job)
    if job.rejection is None or due is None or since is None or due > job.now:
        return None
    problem = explain_rejection(job, job.rejection.problem)
    # Pods of an earlier attempt that still terminate are not held for this one.
    held = sum(pod.attempt == job.attempt for pod in job.acting_pods)
    waited = int((job.now - since).total_seconds())
    message = f"{problem.message}; the {held} pods that exist were released after {waited} s"
    return lose_attempt(job, explain_decision(job, Failure(FailureClass.STARTUP, problem.reason, message)))


def decide_partial_start(job: Job) -> Decision | None:
    """Ends an attempt of which too few pods have got a node in time."""
    due = release_due(job)
    # The Events may tell that an autoscaler adds a node, which moves the deadline.
    if due is None or due > job.now or find_unread(job) is not None:
        return None
    failure = Failure(FailureClass.STARTUP, PARTIAL_START, _explain_lack_of_nodes(job))
    return lose_attempt(job, explain_decision(job, failure, pod=find_waiting(job)))


def _explain_lack_of_nodes(job: Job) -> str:
    pod = find_waiting(job)
    limit = job.spec.partial_start_deadline_seconds
    why = f"no further pod got a node for {limit} s (spec.partialStartDeadlineSeconds)"
    cause = ""
    if pod and pod.problem:
        cause = f"; pod {pod.name} {CANNOT_START}: {pod.problem.message[:600]}"
    return f"{len(list_placed(job))} of {1 + job.desired_workers} pods had a node and were released: {why}{cause}"
