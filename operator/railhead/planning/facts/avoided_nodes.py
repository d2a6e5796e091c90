"""Which nodes the job avoids: those with evidence against them, few of them, and each for a while.

Sure evidence counts at once: the kubelet refuses a pod, or reports an error for one while pods like it have started on
other nodes, or the driver has seen broken hardware. What happens to healthy nodes too counts when it has happened twice
within a day: a reboot under a pod, and likely evidence, which may also be due to the job. A job avoids few nodes on
likely evidence, so that its own fault does not drive it from one node to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from railhead.api.status import MAX_AVOIDED_NODES, AvoidedNode, FailureStatus, RestartStatus
from railhead.contract.failure import BROKEN_NODE
from railhead.contract.times import format_time, parse_time
from railhead.planning.facts.backoff import grow
from railhead.planning.facts.lost_workers import list_ended_unseen, list_killed, list_refused_pods
from railhead.planning.facts.pod_failure import describe_refusal
from railhead.planning.facts.reasons import (
    NODE_REBOOTED,
    NODE_REFUSED_POD,
    POD_KILLED,
    POD_NOT_STARTED,
    POD_START_SLOW,
    UNSCHEDULABLE,
)
from railhead.planning.facts.suspects import is_likely, is_sure
from railhead.planning.facts.unstarted import Unstarted, list_overdue
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView

AVOID_FIRST_SECONDS = 3600
AVOID_LIMIT_SECONDS = 86_400
# for another node, before an avoided one may have the pod
PATIENCE_SECONDS = 30
PATIENCE_LIMIT_SECONDS = 300
PODS_PER_AVOIDED_NODE = 10
NAMED = 3  # nodes in a message
LIKELY_WINDOW = timedelta(hours=24)  # twice on one node within it is enough
# Pods of one node that end within it have ended in the same reboot, or for the same want of memory.
REBOOT_SECONDS = 60
SURE_REASONS = frozenset({*BROKEN_NODE, NODE_REFUSED_POD, POD_NOT_STARTED, NODE_REBOOTED})


@dataclass(frozen=True)
class Evidence:
    """Why a node is bad for the job.

    Attributes:
        at: when the pod was created that the node refused or did not start, or when the hardware failed or the node
            rebooted; None = not known.
        needs_another: once is not enough.
        apart: the least time between two that are not the same.
    """

    node: str
    reason: str
    message: str
    at: datetime | None
    needs_another: bool = False
    apart: timedelta = timedelta()


@dataclass(frozen=True)
class Avoidance:
    """The nodes that the job avoids, and those that it did before; the oldest first."""

    nodes: tuple[AvoidedNode, ...] = ()
    former: tuple[AvoidedNode, ...] = ()

    @staticmethod
    def listed(job: Job) -> Avoidance:
        """Returns the nodes that the status lists."""
        return Avoidance(tuple(job.status.avoided_nodes or ()), tuple(job.status.formerly_avoided_nodes or ()))


def list_evidence(job: Job) -> list[Evidence]:
    """Returns all that speaks against nodes now."""
    refused = [*([job.head] if job.head and job.head.is_refused else []), *list_refused_pods(job)]
    found = [Evidence(p.node, NODE_REFUSED_POD, describe_refusal(p), p.created_at) for p in refused if p.node]
    found += [_blame(each) for each in list_overdue(job)]
    found += [_suspect_reboot(pod) for pod in list_ended_unseen(job) if pod.node]
    found += [_suspect_kill(pod) for pod in list_killed(job) if pod.node]
    failure = job.status.failure if job.is_attempt_lost else None
    restart = job.progress.restart
    if failure and failure.suspect_node:
        found += _judge(failure, failure.suspect_node, parse_time(failure.time))
    if restart is not None:
        suspects = (pod for pod in job.pods if pod.name == restart.suspect_pod and pod.node)
        for pod in suspects:
            found += _judge(restart, pod.node, parse_time(restart.time) or pod.created_at)
    return found


def _judge(failure: FailureStatus | RestartStatus, node: str, at: datetime | None) -> list[Evidence]:
    """Returns the evidence of a failure whose driver suspects this node; none if it is a guess."""
    if not is_sure(failure) and not is_likely(failure):
        return []
    return [Evidence(node, failure.reason, failure.message, at, needs_another=is_likely(failure))]


def _blame(unstarted: Unstarted) -> Evidence:
    """Returns the evidence of a pod that its node does not start. Without an error the node may just be slow."""
    pod = unstarted.pod
    has_error = unstarted.has_error
    reason = POD_NOT_STARTED if has_error else POD_START_SLOW
    return Evidence(pod.node, reason, describe_unstarted(unstarted), pod.created_at, needs_another=not has_error)


def describe_unstarted(unstarted: Unstarted) -> str:
    """Describes what the kubelet of its node reported, if anything."""
    pod = unstarted.pod
    what = f"Node {pod.node} does not start pod {pod.name}, although worker pods have started on other nodes"
    if pod.problem is None:
        return f"{what}; the kubelet reports no error"
    return f"{what} ({pod.problem.reason}): {pod.problem.message[:800]}"


def _suspect_reboot(pod: PodView) -> Evidence:
    at = pod.finished_at or pod.created_at
    apart = timedelta(seconds=REBOOT_SECONDS)
    message = f"Node {pod.node} has rebooted under pod {pod.name}, or its container runtime restarted"
    return Evidence(pod.node, NODE_REBOOTED, message, at, needs_another=True, apart=apart)


def _suspect_kill(pod: PodView) -> Evidence:
    at = pod.finished_at or pod.created_at
    apart = timedelta(seconds=REBOOT_SECONDS)
    message = (
        f"Pod {pod.name} was killed on node {pod.node} for no known reason, such as when the node has no memory left"
    )
    return Evidence(pod.node, POD_KILLED, message, at, needs_another=True, apart=apart)


def is_blamed(job: Job, pod: PodView) -> bool:
    """Returns whether the status blames the pod's node already for this pod, or for another one since this one
    exists."""
    listed = Avoidance.listed(job)
    known = (parse_time(node.since) for node in (*listed.nodes, *listed.former) if node.name == pod.node)
    return any(pod.created_at is not None and since is not None and pod.created_at <= since for since in known)


def compute_avoidance(job: Job) -> Avoidance:
    """Returns the nodes that the job avoids from this pass on."""
    if not job.spec.avoids_nodes:
        return Avoidance()
    listed = Avoidance.listed(job)
    nodes = [node for node in listed.nodes if _ends_at(node) > job.now]
    blocked = find_blocked(job, nodes)
    # Training on a doubtful node is better than not training: one node comes back at a time, the oldest first.
    if blocked is not None:
        nodes = [node for node in nodes if node is not _choose_oldest(blocked, nodes)]
    ended = [node for node in listed.nodes if node not in nodes]
    former = _join(listed.former, ended)
    for evidence in list_evidence(job):
        known = next((node for node in (*nodes, *former) if node.name == evidence.node), None)
        # How often the node was avoided outlives its time, so that a node that fails again is avoided for longer.
        times, since = (known.times, parse_time(known.since)) if known else (0, None)
        passed = evidence.at - since if evidence.at and since else None
        # The same evidence is seen in each pass until its pod is gone.
        is_news = since is None or (passed is not None and passed > evidence.apart)
        is_second = passed is not None and passed <= LIKELY_WINDOW
        if known in nodes or not is_news:
            continue
        if evidence.needs_another and not is_second:
            at = format_time(evidence.at) if evidence.at is not None else None
            suspect = AvoidedNode(name=evidence.node, reason=evidence.reason, since=at, times=times)
            # The node is remembered, and not avoided yet.
            former = _join(former, [suspect])
        # Without room the evidence is dropped: the next pass finds it again, for as long as it lasts.
        elif _has_room(job, nodes, evidence.reason):
            nodes.append(_avoid(job, evidence, times=times + 1))
            former = tuple(node for node in former if node is not known)
    return Avoidance(tuple(nodes), former)


def _has_room(job: Job, nodes: Sequence[AvoidedNode], reason: str) -> bool:
    """Returns whether the job may avoid one more node for this reason."""
    if reason in SURE_REASONS:
        return len(nodes) < MAX_AVOIDED_NODES
    # A job that is itself at fault fails everywhere; with a share of the nodes at most, it cannot exclude the cluster.
    most = max(1, (job.desired_workers + 1) // PODS_PER_AVOIDED_NODE)
    likely = sum(node.reason not in SURE_REASONS for node in nodes)
    return likely < most and len(nodes) < MAX_AVOIDED_NODES


def list_avoided(job: Job) -> tuple[str, ...]:
    """Returns the names of the nodes that pods avoid which are created in this pass."""
    return tuple(node.name for node in compute_avoidance(job).nodes)


def find_blocked(job: Job, nodes: Sequence[AvoidedNode]) -> PodView | None:
    """Returns a pod for which only avoided nodes may be left: the scheduler has found no other one for a while."""
    return next((pod for pod, due in _list_waiting(job, nodes) if due <= job.now), None)


def list_outdated(job: Job) -> list[PodView]:
    """Returns pods that the scheduler finds no node for, and that avoid one that the job avoids no more."""
    if any(pod.avoids for pod in job.not_started):
        avoided = set(list_avoided(job))
    else:
        avoided = set()
    # Whoever adds to the list of each new pod causes no rush.
    due = job.now - timedelta(seconds=PATIENCE_SECONDS)
    unplaced = (pod for pod in _list_unplaced(job) if pod.created_at is not None and pod.created_at <= due)
    return [pod for pod in unplaced if not avoided.issuperset(pod.avoids)]


def explain_avoided(job: Job, pod: PodView) -> str:
    """Explains what to do about a pod for which the job itself may have left no node; "" for any other pod.

    Karpenter (pkg/controllers/provisioning/provisioner.go: validateNodeSelectorTerm) ignores pods that require or
    exclude a node by its name, and restricts the label kubernetes.io/hostname, too.
    """
    if not pod.avoids:
        return ""
    reasons = {node.name: node.reason for node in job.status.avoided_nodes or ()}
    listed = [f"{name} ({reasons.get(name) or 'before'})" for name in pod.avoids[:NAMED]]
    more = f" and {len(pod.avoids) - NAMED} more" if len(pod.avoids) > NAMED else ""
    return (
        f"; the job itself excludes node {', '.join(listed)}{more} (status.avoidedNodes). It uses the oldest of them "
        f"again if no other node comes within {PATIENCE_LIMIT_SECONDS // 60} minutes. Karpenter adds no node for a pod "
        f"that excludes one by name: `kubectl cordon {pod.avoids[0]}` keeps all pods away, so that it adds another one"
    )


def explain_used_again(job: Job) -> str:
    """Names the nodes that pods may use before their time is over, since no other one was left; empty without one."""
    former = [node for node in job.status.formerly_avoided_nodes or () if node.times and _ends_at(node) > job.now]
    if not former:
        return ""
    listed = ", ".join(f"{node.name} ({node.reason})" for node in former[-NAMED:])
    return f"; the scheduler found no other node, so that they may use node {listed} again"


def next_avoidance_change(job: Job, nodes: Sequence[AvoidedNode]) -> datetime | None:
    """Returns when the next of these nodes is avoided no more, or the next pod is out of date."""
    waiting = [due for _, due in _list_waiting(job, nodes)]
    started = [pod.created_at for pod in _list_unplaced(job) if pod.created_at is not None]
    outdated = [at + timedelta(seconds=PATIENCE_SECONDS) for at in started]
    times = (*map(_ends_at, nodes), *waiting, *outdated)
    return min((at for at in times if at > job.now), default=None)


def _list_waiting(job: Job, nodes: Sequence[AvoidedNode]) -> list[tuple[PodView, datetime]]:
    """Returns pods that avoid some of these nodes and no others, and until when they wait for another node."""
    names = {node.name for node in nodes}
    waiting = []
    for pod in _list_unplaced(job):
        if names.issuperset(pod.avoids) and pod.created_at is not None:
            times = _choose_oldest(pod, nodes).times
            patience = grow(PATIENCE_SECONDS, times - 1, limit=PATIENCE_LIMIT_SECONDS)
            waiting.append((pod, pod.created_at + timedelta(seconds=patience)))
    return waiting


def _list_unplaced(job: Job) -> list[PodView]:
    """Returns pods with a node to avoid that the scheduler finds no node for."""
    return [p for p in job.not_started if p.avoids and not p.node and p.problem and p.problem.reason == UNSCHEDULABLE]


def _choose_oldest(pod: PodView, nodes: Sequence[AvoidedNode]) -> AvoidedNode:
    return next(node for node in nodes if node.name in pod.avoids)


def _avoid(job: Job, evidence: Evidence, *, times: int) -> AvoidedNode:
    seconds = grow(AVOID_FIRST_SECONDS, times - 1, limit=AVOID_LIMIT_SECONDS)
    return AvoidedNode(
        name=evidence.node,
        reason=evidence.reason,
        # The evidence may be by the clock of the head's node.
        since=format_time(max(job.now, evidence.at or job.now)),
        expiration_time=format_time(job.now + timedelta(seconds=seconds)),
        times=min(times, 1000),
    )


def _ends_at(node: AvoidedNode) -> datetime:
    """Returns when the node is avoided no more. A time that nobody can read is over."""
    return parse_time(node.expiration_time) or datetime.min.replace(tzinfo=UTC)


def _join(former: Sequence[AvoidedNode], ended: Sequence[AvoidedNode]) -> tuple[AvoidedNode, ...]:
    """Returns the latest ones."""
    names = {node.name for node in ended}
    return (*(node for node in former if node.name not in names), *ended)[-MAX_AVOIDED_NODES:]
