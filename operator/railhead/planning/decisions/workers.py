"""The pods of an attempt that is fine by itself: those that exist and should not, those that are missing or lost, and
an elastic job's number of workers.

Stale pods belong to an earlier attempt, are one too many for their slot, or do not answer the driver. Outdated ones
avoid a node that the job avoids no more, since the affinity of a pod cannot be changed: only pods that the scheduler
finds no node for, so nothing is lost and nothing counted. The same holds for unstarted ones, whose nodes do not start
them. Those that the status announces and that do not exist are created under the same names as before.

The slots of lost workers are filled in a new round. A deleted pod leaves no trace to count, so the round is raised in
the status before the replacement is created, and the replacement's name contains it.

Scaling up creates pods at once; the driver adds them to the group right after a committed checkpoint. Scaling down
deletes pods right after a committed checkpoint, because the group loses what it has trained since the last one. Until
then the intent is in the status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.names import HEAD
from railhead.api.status import JobStatus, Phase, Resize, Restarts, WorkersStatus, replace_restarts, replace_status
from railhead.planning.children import find_missing_mount, head_pod, prerequisites, worker_pods
from railhead.planning.decisions.show_progress import show_progress
from railhead.planning.facts.avoided_nodes import describe_unstarted, is_blamed, list_outdated
from railhead.planning.facts.lost_workers import (
    add_loss,
    add_refusal,
    is_disrupted,
    is_refusal,
    list_given_up,
    list_lost_slots,
    list_refused_pods,
    replacement_at,
)
from railhead.planning.facts.pod_failure import describe_refusal
from railhead.planning.facts.reasons import NODE_REFUSED_POD, POD_NOT_STARTED
from railhead.planning.facts.unstarted import list_overdue
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.pod_view import PodView
from railhead.planning.wanted_status import Requirement, WantedStatus, await_again, make_guard, set_not_running
from railhead.resources.queues.kueue import WORKERS


def decide_stale_pods(job: Job) -> Decision | None:
    """Ends the pods of an earlier attempt before anything else is done: never two heads.

    Terminated ones are just deleted (the operator stopped before it could), and so is the older of
    two pods in one slot (two operators, one with a stale view), and one that the driver has given up, which would hold
    its GPUs, and its part of a quota, for nothing. A worker that may not be deleted holds up nothing.
    """
    earlier = [pod for pod in job.pods if pod.attempt < job.attempt]
    # None of these trains, so deleting them needs no change of the status and no compare.
    idle = (*earlier, *job.workers.duplicates, *list_given_up(job))
    deletes = delete_all(pod for pod in idle if pod.name not in job.denied)
    # A worker whose delete is denied commits nothing, so it does not hold up its successor.
    awaited = [pod for pod in job.stale_pods if pod.role == HEAD or pod.name not in job.protected]
    if deletes or awaited:
        return Decision(deletes=deletes)
    return None


def decide_outdated_pods(job: Job) -> Decision | None:
    """Replaces them: worker pods in a new round, and the head under its own name once it is gone."""
    found = list_outdated(job)
    if not found:
        return None
    # A pod that may not be deleted keeps its slot: a replacement would be a second pod in it.
    kept = {(pod.role, pod.slot) for pod in job.pods if pod.attempt == job.attempt and pod.name in job.protected}
    outdated = [pod for pod in found if (pod.role, pod.slot) not in kept]
    if not outdated:
        return None
    # The head keeps its name and so needs no round; without a change of the status, a guard compares the view.
    is_head_alone = all(pod.role == HEAD for pod in outdated)
    return _replace(job, outdated, WantedStatus(job.status, is_guard=is_head_alone))


def decide_unstarted_pods(job: Job) -> Decision | None:
    """Replaces, in the same way, pods that do not start on their nodes: nothing ran, so no loss is counted."""
    found = list_overdue(job)
    if not found:
        return None
    pods = [each.pod for each in found]
    if all(is_blamed(job, pod) for pod in pods):
        # An earlier pass has decided this, and its deletes have no answer yet. Counting it again would change the
        # status, which begins the next pass.
        return _replace(job, pods, make_guard(job))
    message = f"{describe_unstarted(found[0])}; replacing it"
    if len(found) > 1:
        message = f"{message} and {len(found) - 1} more pods"
    status = replace_status(_show_not_training(job, POD_NOT_STARTED, message), worker_losses=add_refusal(job))
    decision = _replace(job, pods, WantedStatus(status))
    return replace(decision, events=(Event("Warning", POD_NOT_STARTED, message),))


def _replace(job: Job, pods: Sequence[PodView], wanted: WantedStatus) -> Decision:
    slots = [pod.slot for pod in pods if pod.role == names.WORKER]
    if not slots:
        return Decision(wanted=wanted, deletes=delete_all(pods))
    round_ = job.status.round
    # A round that an earlier pass has written is used, not a second one.
    if not _has_round_begun(job, slots):
        round_ += 1
    status = replace_status(wanted.status, round=round_)
    return Decision(
        wanted=replace(wanted, status=status, is_guard=status == job.status),
        creates=(
            *prerequisites(job, attempt=job.attempt),
            *worker_pods(job, attempt=job.attempt, slots=slots, round_=round_),
        ),
        deletes=delete_all(pods),
    )


def _has_round_begun(job: Job, slots: Sequence[int]) -> bool:
    """Returns whether an earlier pass has begun this round for these slots, and none of its pods exists: it could
    not delete the old ones. A round for each such pass would write the status, which begins the next pass, without
    an end."""
    rounds = [
        pod.round for pod in job.pods if pod.attempt == job.attempt and pod.slot in slots and pod.role == names.WORKER
    ]
    return max(rounds, default=job.status.round) < job.status.round


def decide_uncreated_pods(job: Job) -> Decision | None:
    """Creates the missing pods: the operator stopped before it created them, or the API server rejected them. And what
    a pod cannot mount: somebody deleted it."""
    # The pods exist and wait for a mount, so only their prerequisites are created again.
    if find_missing_mount(job) is not None:
        return Decision(wanted=make_guard(job), creates=prerequisites(job, attempt=job.attempt))
    # From then on a missing pod was lost, which `decide_replacement` counts.
    if job.were_all_up:
        return None
    is_head_missing = job.head is None and not job.was_head_up
    if is_head_missing and any(pod.role == HEAD for pod in job.acting_pods):
        # There are never two heads.
        return None
    slots = job.empty_slots
    if not is_head_missing and not slots:
        return None
    wanted = make_guard(job)
    creates = list(prerequisites(job, attempt=job.attempt))
    if is_head_missing:
        # Reports that the view lacks may tell that this attempt has had a head.
        wanted = wanted.requiring(Requirement.FRESH_PODS)
        # Before the workers: nothing of the attempt can begin without it.
        creates.append(head_pod(job, attempt=job.attempt, workers=job.desired_workers))
    creates += worker_pods(job, attempt=job.attempt, slots=slots, round_=job.status.round)
    return Decision(wanted=wanted, creates=tuple(creates))


def decide_replacement(job: Job) -> Decision | None:
    """Replaces, in the same attempt, worker pods that were created but are no longer alive."""
    slots = list_lost_slots(job)
    if not slots:
        return None
    at = replacement_at(job)
    if at > job.now:
        # An elastic job may train meanwhile.
        return (show_progress(job) if job.is_elastic else Decision()).with_wake_by(at)
    round_ = job.status.round + 1
    lost = [pod for pod in job.workers.lost if pod.slot in slots]
    again = f"; replacing them (round {round_})"
    if is_refusal(job):
        message = _describe_refusal(job) + again
        standing = _show_not_training(job, NODE_REFUSED_POD, message)
        event = Event("Warning", NODE_REFUSED_POD, message)
    else:
        message = _describe_loss(job, lost, slots) + again
        standing = _show_not_training(job, "WorkerLost", message)
        event = Event("Warning", "WorkerReplaced", message)
    status = replace_status(
        standing,
        round=round_,
        worker_losses=add_loss(job),
        restarts=_count_disruption(job),
        workers=WorkersStatus(desired=job.desired_workers, ready=job.workers_up, joined=job.workers_up),
    )
    wanted = WantedStatus(await_again(job, status))
    # Some of the slots have no pod that says how it ended.
    if {pod.slot for pod in lost} != set(slots):
        # The pods are gone without a trace, or not seen yet.
        wanted = wanted.requiring(Requirement.FRESH_PODS)
    pods = worker_pods(job, attempt=job.attempt, slots=slots, round_=round_)
    return Decision(
        wanted=wanted,
        creates=(*prerequisites(job, attempt=job.attempt), *pods),
        deletes=delete_all(job.workers.lost),
        events=(event,),
    )


def _describe_loss(job: Job, lost: Sequence[PodView], slots: Sequence[int]) -> str:
    if lost:
        why = f"{lost[0].name} ({lost[0].last_words})"
    else:
        why = _describe_gone(job, slots[0])
    return f"{len(slots)} of {job.desired_workers} worker pods were lost: {why}"


def _describe_refusal(job: Job) -> str:
    """Returns how many pods were refused, and why: what the node of the first one said."""
    refused = list_refused_pods(job)
    return f"{len(refused)} of {job.desired_workers} worker pods were refused. {describe_refusal(refused[0])}"


def _describe_gone(job: Job, slot: int) -> str:
    """Describes a pod that left no trace, of this round or an earlier one."""
    name = names.worker_name(job.name, job.uid, attempt=job.attempt, slot=slot, round_=0)
    return f"{name.removesuffix('0')}* (gone without a trace)"


def _show_not_training(job: Job, reason: str, message: str) -> JobStatus:
    """Shows that the job does not train. An elastic one may continue: its driver reports so, and `show_progress`
    shows it."""
    if job.is_elastic:
        return job.status
    is_first = job.status.waiting is not None and not job.status.waiting.again
    phase: Phase = "Pending" if is_first and reason == POD_NOT_STARTED else "Restarting"
    return replace_status(set_not_running(job, types.RECONCILING, reason=reason, message=message), phase=phase)


def _count_disruption(job: Job) -> Restarts:
    known = job.status.restarts
    if is_disrupted(job):
        return replace_restarts(known, disruptions=known.disruptions + 1)
    return known


def decide_resize(job: Job) -> Decision | None:
    """Resizes an attempt whose number of workers differs from spec.scaling.desiredWorkers."""
    if not job.is_elastic or job.attempt == 0:
        return None
    # Only after the status has the smaller number: deleted before that, a pod would count as lost.
    surplus = delete_all(pod for pod in job.surplus_workers if pod.name not in job.denied)
    if surplus:
        return Decision(wanted=make_guard(job).requiring(Requirement.SAME_DESIRED_WORKERS), deletes=surplus)
    wanted = job.wanted_workers
    resize = job.status.resize
    if wanted > job.desired_workers:
        return _apply(job, wanted)
    if wanted == job.desired_workers:
        if resize is not None:
            return _announce(job, None)
        return None
    # Nothing that was trained would be lost, so there is no checkpoint to wait for.
    if not job.is_training:
        return _apply(job, wanted)
    # Announced with the index of now, so that the next commit, and not one before it, begins the resize.
    if resize is None or resize.worker_pods != wanted:
        return _announce(job, Resize(worker_pods=wanted, after_checkpoint=job.status.newest_index))
    if job.status.newest_index > resize.after_checkpoint:
        return _apply(job, wanted)
    return None


def _apply(job: Job, wanted: int) -> Decision:
    """Changes only the status: the following passes create and delete pods accordingly.

    What is deleted was not lost, also if the job grows again before it is gone: a smaller group begins another round,
    which no counter has, and of a larger one at most the pods of the smaller one are known to be ready.
    """
    known = job.status.workers
    now = job.desired_workers
    workers = WorkersStatus(desired=wanted, ready=min(known.ready, now, wanted), joined=known.joined)
    message = f"Resizing from {now} to {wanted} worker pods (spec.scaling.desiredWorkers)"
    round_ = job.status.round + 1 if wanted < now else job.status.round
    status = replace_status(job.status, workers=workers, resize=None, round=round_)
    admission = job.status.admission
    # Kueue lets a Workload only give back quota, so the admission is reduced for good.
    if admission is not None and wanted < admission.find(WORKERS).count:
        message += f"; LocalQueue {admission.queue} gets the quota back, so a larger number needs another admission"
        status = replace_status(status, admission=admission.keep(WORKERS, wanted))
    events = (Event("Normal", "Resized", message),)
    return Decision(wanted=WantedStatus(status).requiring(Requirement.SAME_SPEC), events=events)


def _announce(job: Job, resize: Resize | None) -> Decision:
    """Writes the resize to the status first: an outdated spec must not remove pods."""
    status = replace_status(job.status, resize=resize)
    return Decision(wanted=WantedStatus(status).requiring(Requirement.SAME_SPEC))
