"""Judges the worker pods that an attempt has lost: why they were lost, what that counts for, and when to replace them.

A round replaces the lost pods of an attempt that lasts. A job that commits checkpoints may lose worker pods for weeks
and keeps its attempt. The counters change in the write that starts the next round, so that deciding twice gives the
same result.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import attrgetter

from railhead.api.status import WorkerLosses, replace_losses
from railhead.contract.failure import Failure, Payer
from railhead.planning.facts.backoff import REFUSED_LIMIT_SECONDS, grow
from railhead.planning.facts.pod_failure import (
    KILLED,
    KILLED_CODES,
    SIGKILLED,
    LossReason,
    classify_pod,
    is_disruption,
)
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView

ROUNDS_WITHOUT_CHECKPOINT = 20
REPLACEMENT_LIMIT_SECONDS = 60
OWN_FAULT_FIRST_SECONDS = 10

# Which pods were lost, and why.


def list_lost_slots(job: Job) -> tuple[int, ...]:
    """Returns the slots whose pods were lost; empty if the status counts the loss already, and their pods are just not
    created yet."""
    slots = job.empty_slots
    replaced = {pod.slot for pod in job.workers.lost if pod.round >= job.status.round}
    if job.were_all_up or replaced.intersection(slots):
        return slots
    return ()


def list_given_up(job: Job) -> list[PodView]:
    """Returns pods that still run, that the driver has lost, and for which no round will begin: the last round replaces
    them too, or the job wants fewer pods by now."""
    if list_lost_slots(job):
        return []
    return [pod for pod in job.workers.lost if pod.is_live]


def list_refused_pods(job: Job) -> list[PodView]:
    """Returns the pods lost now that their nodes refused."""
    return [pod for pod in _list_latest(job) if pod.is_refused]


def list_ended_unseen(job: Job) -> list[PodView]:
    """Returns the pods lost now whose nodes rebooted, the head included, as far as nothing else explains their end."""
    lost = _list_latest(job)
    if job.head is not None and job.head.has_ended:
        lost = [job.head, *lost]
    unseen = (pod for pod in lost if pod.reason == LossReason.STATUS_UNKNOWN and pod.disruption is None)
    # The kubelet gives the same end to a pod that was deleted before it ran. A reboot is seen before anyone deletes it.
    return [pod for pod in unseen if not pod.is_deleting]


def list_killed(job: Job) -> list[PodView]:
    """Returns the pods lost now that were killed without a known reason, the head included.

    The kernel does so when their node, and not their own cgroup, runs out of memory.
    """
    lost = _list_latest(job)
    if job.head is not None and job.head.has_ended:
        lost = [job.head, *lost]
    return [pod for pod in lost if pod.exit_code == SIGKILLED and classify_pod(pod).reason == KILLED]


def find_own_fault(job: Job) -> PodView | None:
    """Returns a pod among those lost now for which the job itself may be at fault."""
    return next((pod for pod in _list_latest(job) if _is_own_fault(classify_pod(pod))), None)


def is_refusal(job: Job) -> bool:
    """Returns whether nodes refused all pods lost now, so that none was lost that ran."""
    latest = _list_latest(job)
    is_any_gone = job.were_all_up and len(latest) < len(list_lost_slots(job))
    return bool(latest) and not is_any_gone and all(pod.is_refused for pod in latest)


def is_disrupted(job: Job) -> bool:
    """Returns whether disruptions took all pods lost now that ran, or these are gone without a trace."""
    failures = [classify_pod(pod) for pod in _list_latest(job) if not pod.is_refused]
    return not is_refusal(job) and all(is_disruption(failure.class_, failure.reason) for failure in failures)


# What the rounds count for.


def count_losses(job: Job) -> WorkerLosses:
    """Returns the rounds so far since the newest checkpoint."""
    newest = job.status.newest_index
    known = job.status.worker_losses
    if known is not None and known.checkpoint >= newest:
        return known
    return WorkerLosses(checkpoint=newest)


def count_refusals(job: Job) -> int:
    """Counts the rounds in a row so far in which a node refused a pod; none once all pods were up.

    A checkpoint changes nothing: an elastic job commits while it waits.
    """
    known = job.status.worker_losses
    if known is None or job.were_all_up:
        return 0
    return known.refused


def add_loss(job: Job) -> WorkerLosses:
    """Counts the rounds with the one that replaces the pods lost now."""
    known = count_losses(job)
    refused = 0
    # A refusal lengthens the row even if other pods of the round were really lost.
    if list_refused_pods(job):
        refused = count_refusals(job) + 1
    if is_refusal(job):
        # Nothing that ran was lost.
        return replace_losses(known, refused=refused)
    own_fault = 0
    if find_own_fault(job):
        own_fault = known.own_fault + 1
    return WorkerLosses(
        rounds=known.rounds + 1,
        own_fault=own_fault,
        refused=refused,
        checkpoint=known.checkpoint,
    )


def add_refusal(job: Job) -> WorkerLosses:
    """Counts a round in a row in which a node did not start a pod."""
    return replace_losses(count_losses(job), refused=count_refusals(job) + 1)


# When a round may begin.


def replacement_at(job: Job) -> datetime:
    """Returns when lost workers may be replaced.

    That is at once after a deletion or a disruption, later after a pod that failed by itself, and later each time after
    one that the job itself may be at fault for, or that a node refused.
    """
    if is_refusal(job):
        return _refused_until(job)
    losses = count_losses(job)
    faulty = find_own_fault(job)
    if faulty is not None:
        ended_at = _find_end(faulty, job.now)
        if ended_at is not None:
            delay = grow(OWN_FAULT_FIRST_SECONDS, losses.own_fault, limit=REPLACEMENT_LIMIT_SECONDS)
            return ended_at + timedelta(seconds=delay)
    failed = [pod for pod in job.workers.lost if pod.has_ended and not _was_stopped(pod)]
    times = [_find_end(pod, job.now) for pod in failed]
    ended = [time for time in times if time is not None]
    # The first loss of a complete group is replaced at once; only pods that fail again while it starts are delayed.
    if not ended or job.were_all_up:
        return job.now
    return max(ended) + timedelta(seconds=grow(1, losses.rounds, limit=REPLACEMENT_LIMIT_SECONDS))


def _refused_until(job: Job) -> datetime:
    """Returns when refused pods may be replaced: at once after the first refusal in a row, then
    after 1, 2, 4, ... 60 s.

    The delay runs since the pod was created, as the kubelet does not say when it refused it.
    """
    known = count_refusals(job)
    created = [min(pod.created_at, job.now) for pod in list_refused_pods(job) if pod.created_at]
    if known == 0 or not created:
        return job.now
    return max(created) + timedelta(seconds=grow(1, known - 1, limit=REFUSED_LIMIT_SECONDS))


def _list_latest(job: Job) -> list[PodView]:
    """Lists the pods lost now, one per slot."""
    slots = frozenset(list_lost_slots(job))
    latest: dict[int, PodView] = {}
    # Pods of earlier rounds may still be terminating: in each slot the one of the latest round wins.
    for pod in sorted(job.workers.lost, key=attrgetter("round")):
        if pod.slot in slots:
            latest[pod.slot] = pod
    return list(latest.values())


def _is_own_fault(failure: Failure) -> bool:
    """Returns whether the job needs more memory, or less of what a limit counts, and not another pod."""
    return failure.reason == LossReason.TERMINATION_BY_KUBELET or failure.class_.policy.payer is Payer.APPLICATION


def _was_stopped(pod: PodView) -> bool:
    """Returns whether the cluster or a person stopped it, so that another pod may be fine at once."""
    failure = classify_pod(pod)
    return pod.exit_code in KILLED_CODES or is_disruption(failure.class_, failure.reason)


def _find_end(pod: PodView, now: datetime) -> datetime | None:
    """Returns when the pod ended, by its node's clock; None if that is unknown."""
    ended_at = pod.finished_at
    if ended_at is not None and ended_at > now:
        # The node's clock is ahead. Waiting until its time would delay the round by the difference.
        return pod.created_at
    return ended_at
