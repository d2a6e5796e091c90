"""Which pods do not start on their node although others like them have started elsewhere: evidence against that node.

A pod is compared with the worker pods of its attempt, which have the same image and the same volumes. The head is like
them unless a role's own template changes more than where the pod runs. As long as none of them has started, the image
may be wrong, and nothing speaks against a node.

A pod whose kubelet reports an error is replaced after `ERROR_SECONDS`, if at least half of the workers have started;
before that a registry, or another thing that all pods need, may be slow, so it takes `MINORITY_SECONDS`. Without an
error the node may pull a large image that others had: it takes `SLOW_SECONDS`. The times begin when the pod has its
node and the others have started, and grow when replacements do not start either, so that a cluster in which nothing
starts is not flooded with pods.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from railhead.api.names import HEAD
from railhead.api.spec import TrainJobSpec
from railhead.planning.facts.backoff import grow
from railhead.planning.facts.lost_workers import count_refusals
from railhead.planning.facts.reasons import OF_ONE_NODE, POD_EVENTS
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView

ERROR_SECONDS = 90
MINORITY_SECONDS = 240
ERROR_LIMIT_SECONDS = 600
SLOW_SECONDS = 1800
SLOW_LIMIT_SECONDS = 14_400
# In a row, before the times of errors grow.
ROUNDS_AT_ONCE = 4
# After half or the first of the workers have started: then the Events of each other pod are read.
EARLY_LOOK_SECONDS = 30
LATE_LOOK_SECONDS = 120
# Of a pod's template: where and when it runs, and no more.
PLACEMENT = frozenset(
    {
        "affinity",
        "nodeSelector",
        "preemptionPolicy",
        "priorityClassName",
        "schedulerName",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
    }
)
# pkg/volume: what a volume names does not exist. No other node has it either.
_MISSING_OBJECT = re.compile(r'(?:configmap|secret) "[^"]*" not found|references non-existent', re.IGNORECASE)


@dataclass(frozen=True)
class Unstarted:
    """A pod that does not start, although others have.

    Attributes:
        due: when it is replaced.
        has_error: its kubelet reports one.
    """

    pod: PodView
    due: datetime
    has_error: bool

    @property
    def is_confirmed(self) -> bool:
        """Returns whether what is known of the pod is from after its time; Events are read now and then only."""
        problem = self.pod.problem
        read_at = self.pod.events_read_at
        if problem is not None and problem.reason not in POD_EVENTS:
            return True  # from its status
        return read_at is not None and read_at >= self.due


@dataclass(frozen=True)
class _Starts:
    """When the workers of the attempt started, and how long a pod may take since then.

    Attributes:
        first: when the first one did.
        half: when half of them had; None = fewer have.
        nodes: on which they run.
        slow, early, late: seconds for a pod without an error, and for one with an error after half or the first of
            them.
    """

    first: datetime
    half: datetime | None
    nodes: frozenset[str]
    slow: int
    early: int
    late: int


def list_overdue(job: Job) -> list[Unstarted]:
    """Returns the pods that are to be replaced now, in one round: none before all that are due are confirmed."""
    due = [each for each in list_unstarted(job) if each.due <= job.now]
    if all(each.is_confirmed for each in due):
        return due
    return []


def find_unconfirmed(job: Job) -> PodView | None:
    """Returns the pod whose Events are read before it is replaced."""
    return next((x.pod for x in list_unstarted(job) if x.due <= job.now and not x.is_confirmed), None)


def next_unstarted(job: Job) -> datetime | None:
    """Returns when the next pod is due."""
    return min((each.due for each in list_unstarted(job) if each.due > job.now), default=None)


def find_look_time(job: Job) -> datetime | None:
    """Returns from when on the Events of each pod that waits are of interest; None = only those of the first one."""
    starts = _find_starts(job)
    if starts is None:
        return None
    late = starts.first + timedelta(seconds=LATE_LOOK_SECONDS)
    if starts.half is None:
        return late
    return min(late, starts.half + timedelta(seconds=EARLY_LOOK_SECONDS))


def list_unstarted(job: Job) -> list[Unstarted]:
    """Returns the pods that wait on their nodes although others have started, each with its time."""
    # The cheap conditions first: this is asked several times in each pass.
    if not job.not_started or not job.spec.avoids_nodes or job.is_attempt_lost:
        return []
    starts = _find_starts(job)
    if starts is None:
        return []
    # A pod whose delete is denied stays where it is, so there is nothing to be decided about it.
    waiting = (pod for pod in job.not_started if pod.node and not pod.has_begun and pod.name not in job.denied)
    found = (_judge(job, pod, starts) for pod in waiting if starts.nodes != {pod.node})
    return [each for each in found if each is not None]


def _find_starts(job: Job) -> _Starts | None:
    """Returns when the workers began to start, or None while no worker runs."""
    running = [pod for pod in job.workers.live if pod.is_running]
    if not running:
        return None
    times = sorted(_compute_start(pod, job.now) for pod in running)
    half = (job.desired_workers + 1) // 2
    rounds = count_refusals(job)
    factor = grow(1, rounds + 1 - ROUNDS_AT_ONCE, limit=ERROR_LIMIT_SECONDS)
    return _Starts(
        first=times[0],
        half=times[half - 1] if len(times) >= half else None,
        nodes=frozenset(pod.node for pod in running),
        slow=grow(SLOW_SECONDS, rounds, limit=SLOW_LIMIT_SECONDS),
        early=min(ERROR_SECONDS * factor, ERROR_LIMIT_SECONDS),
        late=min(MINORITY_SECONDS * factor, ERROR_LIMIT_SECONDS),
    )


def _compute_start(pod: PodView, now: datetime) -> datetime:
    """Returns when the pod started, by its node's clock; if that is fast, when the pod got its node."""
    if pod.started_at is not None and pod.started_at <= now:
        return pod.started_at
    return min(pod.scheduled_at or pod.created_at or now, now)


def _judge(job: Job, pod: PodView, starts: _Starts) -> Unstarted | None:
    placed = pod.scheduled_at or pod.created_at
    has_error = pod.problem is not None
    if placed is None or (pod.role == HEAD and not is_head_like_workers(job.spec)):
        return None
    # An invalid name or a missing Secret fails on every node, so replacing the pod would blame a healthy one.
    if has_error and not _may_be_of_node(job, pod):
        return None
    times = []
    if starts.half is not None:
        seconds = starts.early if has_error else starts.slow
        times.append(max(placed, starts.half) + timedelta(seconds=seconds))
    if has_error:
        times.append(max(placed, starts.first) + timedelta(seconds=starts.late))
    if times:
        return Unstarted(pod, min(times), has_error)
    return None


def _may_be_of_node(job: Job, pod: PodView) -> bool:
    problem = pod.problem
    mounts = job.mounts_of(job.attempt)
    if problem is None or problem.reason not in OF_ONE_NODE or _MISSING_OBJECT.search(problem.message):
        return False
    # A mount of ours that is missing is missing on every node, and `decide_uncreated_pods` makes it again.
    return not any(name and name in problem.message for name in (mounts.driver, mounts.input, mounts.secret))


def is_head_like_workers(spec: TrainJobSpec) -> bool:
    """Returns whether head and workers need the same of their nodes, but for devices."""
    templates = (spec.head.pod_template or {}, spec.worker.pod_template or {})
    return all(PLACEMENT.issuperset(template.get("spec", {})) for template in templates)
