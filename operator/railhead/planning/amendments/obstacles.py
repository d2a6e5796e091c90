"""What the operator cannot change: deletes that the API server denies, foreign pods with the job's label, CPU limits
that admission adds to the job's pods, and pods that are Terminating long after their grace period; and when a job is
reconciled again although nothing changes: for a user's limit, for a pod whose node does not respond, and to look up a
pod's events.

The conditions DeleteDenied, QueueUnreachable, ForeignPods and CPULimited name the objects, with the API server's
words, and go with the obstacle. A denied delete holds up no other delete, and is tried again after 1, 2, 4, 8, 15,
15 ... s; so is a denied change of the Workload.

status.stuckPods lists the pods that do not terminate. The job waits for none of them, but they may still use their
GPUs. Usually their node is dead, and only a person can make sure that the machine is off.

Of a pod that has a node and does not run, the kubelet may report the cause only in an event. The operator reads that
event after 15 s, then whenever the time has doubled, and at least every 5 minutes, for one pod of the job, and for each
that is left when half of the workers have run for a while. It reads events once more before a pod is replaced that its
node does not start, and before an attempt of which pods have no node is given up: an autoscaler reports only in an
event that it adds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.job import InvalidSpec
from railhead.api.status import MAX_STUCK_PODS, StuckPod
from railhead.contract.text import format_time
from railhead.planning.facts.deadlines import find_unread, next_due
from railhead.planning.facts.reasons import POD_EVENTS
from railhead.planning.facts.unstarted import find_look_time, find_unconfirmed, next_unstarted
from railhead.planning.job import Job
from railhead.planning.observed import Observed, denied_until
from railhead.planning.plan import Decision, Event
from railhead.planning.pod_view import STUCK_SECONDS, PodView
from railhead.planning.status_change import StatusChange, make_condition
from railhead.resources.templates import has_cpu_limit

NAMED = 3


def hold_back_deletes(observed: Observed, decision: Decision) -> Decision:
    """Drops the deletes and the change that were denied a moment ago, and what is only done once all deletes have
    succeeded; and wakes the job when the next of them is to be tried again."""
    denied = observed.denied
    if not denied:
        return decision
    is_job_denied = observed.name in denied and decision.delete_job is not None
    removes = tuple(each for each in decision.removes if each.name not in denied)
    held = replace(
        decision,
        deletes=tuple(each for each in decision.deletes if each.name not in denied),
        removes=removes,
        delete_job=None if is_job_denied else decision.delete_job,
        last=decision.last if removes == decision.removes else None,
        workload=None if decision.workload is not None and decision.workload.name in denied else decision.workload,
    )
    return held.waking(min(at for each in observed.denials if (at := denied_until(each, observed.now)) > observed.now))


def report_obstacles(observed: Observed, decision: Decision) -> Decision:
    """Adds a condition for each kind of obstacle, with an event when its message is new, or removes it."""
    foreign = _describe_foreign_pods(observed)
    deletes, changes = (_describe_denials(observed, verb) for verb in ("delete", "change"))
    decision = _show(observed, decision, types.DELETE_DENIED, Event("Warning", "DeleteDenied", deletes, is_series=True))
    unreachable = Event("Warning", "ChangeDenied", changes, is_series=True) if changes else _describe_queue(observed)
    decision = _show(observed, decision, types.QUEUE_UNREACHABLE, unreachable)
    decision = _show(observed, decision, types.FOREIGN_PODS, Event("Warning", "ForeignPods", foreign, is_series=True))
    limits = _describe_cpu_limits(observed)
    return _show(observed, decision, types.CPU_LIMITED, Event("Warning", "CPULimitAdded", limits, is_series=True))


def _show(observed: Observed, decision: Decision, type_: str, event: Event) -> Decision:
    """The event's message is empty while there is no such obstacle."""
    known = observed.status.find_condition(type_)
    if (known.message if known else "") == event.message:
        return decision
    status = replace(decision.status or StatusChange(), is_guard=False)
    if not event.message:
        return replace(decision, status=status.without_conditions([type_]))
    condition = make_condition(observed, type_, reason=event.reason, message=event.message)
    return replace(decision, status=status.with_conditions(condition), events=(*decision.events, event))


def _describe_denials(observed: Observed, verb: str) -> str:
    denials = sorted((each for each in observed.denials if each.verb == verb), key=lambda each: each.name)
    if not denials:
        return ""
    first, more = denials[0], f" and {len(denials) - 1} more objects" if len(denials) > 1 else ""
    way_out = "allow it or delete the object yourself" if verb == "delete" else "allow it, so that Kueue learns of it"
    return (
        f"The API server denies the operator to {verb} {first.kind} {first.name}{more}: {first.message[:1000]}; "
        f"{way_out}. The operator tries again every 15 s"
    )


def _describe_queue(observed: Observed) -> Event:
    """Of a job that runs: one at rest waits, with the reason QueueMissing."""
    admission, is_over = observed.status.admission, observed.status.is_finished or observed.is_at_rest
    message = ""
    if admission is not None and observed.queue.state in ("off", "missing") and not is_over:
        message = (
            f"The job runs on as LocalQueue {admission.queue} admitted it, but the operator cannot watch Kueue's "
            "objects any more: the API server has none or does not let it, or queue.kueue.enabled is false. So no "
            "eviction reaches the job, and Kueue does not learn of its end"
        )
    return Event("Warning", "QueueLost", message, is_series=True)


def _describe_foreign_pods(observed: Observed) -> str:
    found = observed.foreign_pods
    if not found:
        return ""
    listed = ", ".join(found[:NAMED]) + (", ..." if len(found) > NAMED else "")
    return (
        f"{len(found)} pods carry this job's label railhead.dev/job-uid and are not its own: {listed}; the operator "
        "ignores them. If they are copies of the job's pods, delete them or remove the label"
    )


def _describe_cpu_limits(observed: Observed) -> str:
    """The job's pods have none by default: a throttled raylet looks like a dead one. The pods are not named, so that
    the message stays the same when some are replaced."""
    spec = observed.spec
    limits = sorted({(pod.role, pod.cpu_limit) for pod in observed.pods if pod.cpu_limit})
    if not limits or isinstance(spec, InvalidSpec):
        return ""
    added = [(role, limit) for role, limit in limits if not has_cpu_limit(spec, role)]
    if not added:
        return ""
    listed = ", ".join(f"{limit} on container {names.CONTAINER} of {role} pods" for role, limit in added)
    return (
        f"The job's pods have a CPU limit that the job did not ask for ({listed}), most likely the default of a "
        f"LimitRange in namespace {observed.namespace}. It slows training down, and Ray's processes too, so that a pod "
        "that is throttled looks lost. Remove the default limit for cpu from the LimitRange, or set limits.cpu of "
        f"container {names.CONTAINER} in podTemplate; pods keep the limit that they have until they are replaced"
    )


def list_stuck_pods(observed: Observed, decision: Decision) -> Decision:
    """Updates the list, with one event for all pods that are new, and wakes the job when the next pod is due."""
    decision = decision.waking(observed.next_stuck)
    stuck = observed.stuck_pods
    listed, wanted = observed.status.stuck_pods or [], [_describe_stuck(pod) for pod in stuck[:MAX_STUCK_PODS]]
    known = {pod.name for pod in listed}
    if wanted == listed or _is_still_good(wanted, known):
        return decision
    status = replace(decision.status or StatusChange(), stuck_pods=wanted or None, is_guard=False)
    new = [pod for pod in stuck if pod.name not in known]
    is_news = bool(new) and len(listed) < MAX_STUCK_PODS  # beyond a full list nobody knows which are new
    return replace(
        decision, status=status, events=(*decision.events, _report_stuck(new)) if is_news else decision.events
    )


def _is_still_good(wanted: Sequence[StuckPod], known: set[str]) -> bool:
    """A full list is replaced when half of its pods are gone, so that 512 pods that end cost few writes."""
    kept = sum(pod.name in known for pod in wanted)
    return len(wanted) == len(known) == MAX_STUCK_PODS and 2 * kept > MAX_STUCK_PODS


def _describe_stuck(pod: PodView) -> StuckPod:
    since = pod.deletion_timestamp
    return StuckPod(name=pod.name, node=pod.node, since=since and format_time(since))


def _report_stuck(pods: Sequence[PodView]) -> Event:
    places = ", ".join(f"{pod.place} since {_describe_stuck(pod).since}" for pod in pods[:3])
    if len(pods) > 3:
        places += ", ..."
    if all(pod.is_kept_by_finalizer for pod in pods):
        message = (
            f"{len(pods)} pods have no container that runs, and stay Terminating for a finalizer "
            f"({pods[0].finalizer}). The controller that set it removes it; if that controller is gone, remove it "
            f"yourself. The pods: {places}"
        )
        return Event("Warning", "PodStuckTerminating", message)
    message = (
        f"{len(pods)} pods are Terminating {STUCK_SECONDS // 60} minutes beyond their grace period and may still use "
        "their GPUs. If a pod's machine is off, delete its Node object, or taint the node with "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or run `kubectl delete pod NAME --force`; "
        f"if it is not, repair the node. The pods: {places}"
    )
    return Event("Warning", "PodStuckTerminating", message)


FIRST_SECONDS, MOST_SECONDS = 15, 300


def wake_for_limits(job: Job, decision: Decision) -> Decision:
    """Adds the earliest of these times."""
    decision = decision.waking(next_due(job)).waking(next_unstarted(job))
    return decision if job.status.is_finished else decision.waking(job.next_out_of_reach)


def look_up_pod_events(job: Job, decision: Decision) -> Decision:
    """Adds the look-up, or the time when it is due. A pass that creates or deletes pods looks nothing up."""
    if job.status.is_finished or job.is_attempt_lost or decision.deletes or decision.creates:
        return decision
    unread = find_unread(job) or find_unconfirmed(job)
    if unread is not None:
        return replace(decision, look_up_events_of=unread)
    placed = [pod for pod in job.not_started if pod.node and pod.created_at is not None]
    placed = [pod for pod in placed if pod.problem is None or pod.problem.reason in POD_EVENTS]
    if not placed:
        return decision
    if len(placed) > 1:
        all_from = find_look_time(job)
        if all_from is None or all_from > job.now:
            placed = placed[:1]
            decision = decision.waking(all_from)
    due, pod = min(((_next_look(pod, job.now), pod) for pod in placed), key=lambda each: each[0])
    return replace(decision, look_up_events_of=pod) if due <= job.now else decision.waking(due)


def _next_look(pod: PodView, now: datetime) -> datetime:
    """When the pod's Events are due to be read."""
    created_at = pod.created_at or now
    waited = (pod.events_read_at - created_at).total_seconds() if pod.events_read_at else FIRST_SECONDS
    after = timedelta(seconds=min(max(waited, FIRST_SECONDS), MOST_SECONDS))
    return (pod.events_read_at or created_at) + after
