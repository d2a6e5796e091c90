"""When limits expire: the user's for the job, its start, a restart and its children after the end, and those of an
attempt that holds some of its pods and cannot get the others. All are by the API server's clock.

An attempt of which the API server rejects pods holds the others for a short time only. One whose pods get no nodes
holds its nodes for spec.partialStartDeadlineSeconds: the time begins again with each pod that is created or gets a
node, and when an autoscaler begins to add a node for the pod whose Events are read at its end. All jobs read Events in
turn, and none holds its nodes for longer than a minute until it has read them. What a pod does on its node, such as
pulling an image, plays no part.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api import conditions as types
from railhead.api import names
from railhead.contract.numbers import MAX_INT32
from railhead.contract.times import parse_time
from railhead.planning.facts.quota import exceeds_quota
from railhead.planning.facts.reasons import QUOTA_EXCEEDED
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView

# Twice a driver's longest wait between two tries of a report.
REPORT_AGAIN_SECONDS = 20
AWAITED = ("Pending", "Starting", "Restarting")  # phases in which the job waits for training
FIRST_REPORT_SECONDS = 120  # from the start of the head's container; Python and Ray start in a fraction of it
HOLD_SECONDS = 30
READING_SECONDS = 60  # for the Events of a pod to be read, where many jobs read them at the same time
# A webhook, a policy or the API server's rights: other jobs need nothing that the pods hold.
OUTAGE_SECONDS = 600


def active_due(job: Job) -> datetime | None:
    """Returns when spec.activeDeadlineSeconds ends the job. Time without pods, suspended or queued, does not count.

    The order of the decisions keeps it from ending a job that must have no pods now.
    """
    limit = job.spec.active_deadline_seconds
    start = parse_time(job.status.start_time)
    if limit is None or start is None:
        return None
    return start + timedelta(seconds=limit + max(count_suspended(job), 0))


def startup_due(job: Job) -> datetime | None:
    """Returns when spec.startDeadlineSeconds or spec.restartDeadlineSeconds ends the wait for training."""
    waiting = job.status.waiting
    if waiting is None or job.is_attempt_lost or job.status.phase not in AWAITED:
        return None
    if job.is_training and job.are_enough_up:
        # The next decision records that it runs.
        return None
    if is_report_missing(job):
        return None  # it may train
    since = parse_time(waiting.since)
    if waiting.again:
        limit = job.spec.restart_deadline_seconds
    else:
        limit = job.spec.start_deadline_seconds
    if since is None or limit is None:
        return None
    due = since + timedelta(seconds=limit)
    # Without a leader, no report could arrive that training runs: drivers get the time to repeat it.
    if job.led_since:
        return max(due, job.led_since + timedelta(seconds=REPORT_AGAIN_SECONDS))
    return due


def clean_up_due(job: Job) -> datetime | None:
    """Returns when spec.keepPodsSeconds ends."""
    return _after_end(job, job.spec.keep_pods_seconds)


def deletion_due(job: Job) -> datetime | None:
    """Returns when spec.ttlSecondsAfterFinished ends."""
    return _after_end(job, job.spec.ttl_seconds_after_finished)


def _after_end(job: Job, limit: int | None) -> datetime | None:
    """Counts from the condition, not from status.completionTime, which is by the clock of the head's node."""
    ended = job.status.true_since(types.COMPLETE, types.FAILED)
    if ended is not None and limit is not None:
        return ended + timedelta(seconds=limit)
    return None


def next_due(job: Job) -> datetime | None:
    """Returns when the next limit expires."""
    finished = job.status.is_finished
    if job.is_at_rest and not finished:
        # No limit expires while the job has no pods.
        return None
    running = (active_due, startup_due, release_due, _reading_due)
    dues = (due(job) for due in ((clean_up_due, deletion_due) if finished else running))
    return min((due for due in dues if due is not None and due > job.now), default=None)


def count_suspended(job: Job) -> int:
    """Returns status.suspendedSeconds including the suspension that ends now."""
    since = job.status.true_since(types.SUSPENDED) if job.attempt > 0 else None
    rested = (job.now - since).total_seconds() if since else 0.0
    return min(job.status.suspended_seconds + max(int(rested), 0), MAX_INT32)


def is_report_missing(job: Job) -> bool:
    return job.are_enough_up and job.status.progress.attempt != job.attempt


def report_due(job: Job) -> datetime | None:
    """Returns when the first report of the attempt is overdue; None once it has arrived, and while pods start."""
    # By the kubelet's clock, which may be ahead of the API server's.
    started = job.head.started_at if job.head is not None else None
    if started is None or not is_report_missing(job):
        return None
    return min(started, job.now) + timedelta(seconds=FIRST_REPORT_SECONDS)


def choose_hold_seconds(job: Job) -> int:
    """Returns for how many seconds the placed pods of an incomplete group wait for the others.

    More for a group that was complete before: what ends within minutes must not cost it a healthy pod.
    """
    # Waiting is of no use: no other job's end makes room for it.
    if exceeds_quota(job):
        return 0
    is_quota = job.rejection is not None and job.rejection.problem.reason == QUOTA_EXCEEDED
    if is_quota or not job.status.head.pod:
        return HOLD_SECONDS
    return OUTAGE_SECONDS


def held_since(job: Job) -> datetime | None:
    """Returns since when pods are held for others that the API server rejects. None while nothing is held for them:
    pods that wait for nodes or for each other are nobody's fault."""
    waiting = job.status.waiting
    if job.rejection is None or waiting is None or job.is_attempt_lost:
        return None
    # An elastic job that has its minimum trains, so it holds no pods for nothing.
    is_complete = job.head is not None and len(job.workers.live) >= job.least_workers
    held = [pod for pod in job.pods if pod.is_live and pod.attempt == job.attempt]
    if is_complete or not held:
        return None
    waited = parse_time(waiting.since) or job.now
    # The latest of the three begins the time: the wait, the first pod, and the first rejection.
    first = min((pod.created_at for pod in held if pod.created_at), default=job.now)
    return min(max(waited, first, job.rejection.since), job.now)


def give_up_due(job: Job) -> datetime | None:
    """Returns when the pods are released that are held for others."""
    since = held_since(job)
    if since is None:
        return None
    return since + timedelta(seconds=choose_hold_seconds(job))


def list_placed(job: Job) -> list[PodView]:
    """Returns the pods that have a node."""
    return [pod for pod in job.live_pods if pod.node]


def find_waiting(job: Job) -> PodView | None:
    """Returns a pod that has no node, if possible one for which the scheduler says why."""
    waiting = [pod for pod in job.live_pods if not pod.node]
    # False sorts before True, so a pod with a problem comes first.
    return min(waiting, key=lambda pod: pod.problem is None, default=None)


def release_due(job: Job) -> datetime | None:
    """Returns when the pods are released; None for a job that can train, or that holds a node for no worker."""
    limit = job.spec.partial_start_deadline_seconds
    waiting = job.status.waiting
    if not limit or waiting is None or job.is_attempt_lost:
        return None
    placed = list_placed(job)
    workers = sum(pod.role == names.WORKER for pod in placed)
    if not workers or len(placed) > workers >= job.least_workers:
        # A head alone holds no GPU.
        return None
    # Anything that moves proves that the cluster still brings nodes, so the limit begins again.
    moved = [at for pod in job.live_pods for at in (pod.created_at, pod.scheduled_at, pod.node_added_at) if at]
    since = max([parse_time(waiting.since) or job.now, *moved])
    return min(since, job.now) + timedelta(seconds=limit)


def find_unread(job: Job) -> PodView | None:
    """Returns the pod whose Events are to be read before the deadline ends the attempt."""
    due = release_due(job)
    end = _reading_due(job)
    if due is None or end is None or not due <= job.now < end:
        return None
    pod = find_waiting(job)
    if pod is None or (pod.events_read_at is not None and pod.events_read_at >= due):
        return None
    return pod


def _reading_due(job: Job) -> datetime | None:
    """Returns when the deadline ends the attempt, whether the Events are read or not."""
    due = release_due(job)
    if due is None:
        return None
    return due + timedelta(seconds=READING_SECONDS)
