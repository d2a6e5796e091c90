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

from dataclasses import replace
from operator import attrgetter

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.parsed_spec import InvalidSpec
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, Event
from railhead.planning.status_change import StatusChange, make_condition
from railhead.resources.templates import has_cpu_limit

NAMED = 3


def report_obstacles(observed: Observed, decision: Decision) -> Decision:
    """Adds a condition for each kind of obstacle, with an event when its message is new, or removes it."""
    foreign = _describe_foreign_pods(observed)
    deletes, changes = (_describe_denials(observed, verb) for verb in ("delete", "change"))
    decision = _show(observed, decision, types.DELETE_DENIED, Event("Warning", "DeleteDenied", deletes, is_series=True))
    if changes:
        unreachable = Event("Warning", "ChangeDenied", changes, is_series=True)
    else:
        unreachable = _describe_queue(observed)
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
    denials = sorted((each for each in observed.denials if each.verb == verb), key=attrgetter("name"))
    if not denials:
        return ""
    first = denials[0]
    more = f" and {len(denials) - 1} more objects" if len(denials) > 1 else ""
    way_out = "allow it, so that Kueue learns of it"
    if verb == "delete":
        way_out = "allow it or delete the object yourself"
    return (
        f"The API server denies the operator to {verb} {first.kind} {first.name}{more}: {first.message[:1000]}; "
        f"{way_out}. The operator tries again every 15 s"
    )


def _describe_queue(observed: Observed) -> Event:
    """Describes it of a job that runs: one at rest waits, with the reason QueueMissing."""
    admission = observed.status.admission
    is_over = observed.status.is_finished or observed.is_at_rest
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
