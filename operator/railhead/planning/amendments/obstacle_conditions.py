"""Shows what the operator cannot change as a condition for each kind of obstacle.

The kinds are deletes and changes that the API server denies, a queue out of reach, foreign pods with the job's label,
and CPU limits that admission adds to the job's pods. The conditions DeleteDenied, QueueUnreachable, ForeignPods and
CPULimited name the objects, with the API server's words, and go with the obstacle.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.parsed_spec import InvalidSpec
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, Event
from railhead.planning.wanted_status import make_condition
from railhead.resources.templates import has_cpu_limit

NAMED = 3


def report_obstacles(observed: Observed, decision: Decision) -> Decision:
    """Adds a condition for each kind of obstacle, with an event when its message is new, or removes it."""
    foreign = _describe_foreign_pods(observed)
    deletes = _describe_denials(observed, "delete")
    decision = _show(observed, decision, types.DELETE_DENIED, Event("Warning", "DeleteDenied", deletes, is_series=True))
    # Both obstacles have the same condition. A denied change names what to allow, so it goes first.
    unreachable = _describe_queue(observed)
    changes = _describe_denials(observed, "change")
    if changes:
        unreachable = Event("Warning", "ChangeDenied", changes, is_series=True)
    decision = _show(observed, decision, types.QUEUE_UNREACHABLE, unreachable)
    decision = _show(observed, decision, types.FOREIGN_PODS, Event("Warning", "ForeignPods", foreign, is_series=True))
    limits = _describe_cpu_limits(observed)
    return _show(observed, decision, types.CPU_LIMITED, Event("Warning", "CPULimitAdded", limits, is_series=True))


def _show(observed: Observed, decision: Decision, type_: str, event: Event) -> Decision:
    """Shows the obstacle; the event's message is empty while there is none."""
    known = observed.status.find_condition(type_)
    # Compared by the message, which names objects and words but no time, so that an obstacle that lasts is written
    # once.
    if (known.message if known else "") == event.message:
        return decision
    status = decision.status_after(observed)
    if not event.message:
        return decision.with_status(status.without_conditions([type_]))
    condition = make_condition(observed, type_, reason=event.reason, message=event.message)
    return replace(decision.with_status(status.with_conditions(condition)), events=(*decision.events, event))


def _describe_denials(observed: Observed, verb: str) -> str:
    denied = [each for each in observed.denials if each.verb == verb]
    denials = sorted(denied, key=attrgetter("name"))
    if not denials:
        return ""
    first = denials[0]
    more = ""
    if len(denials) > 1:
        more = f" and {len(denials) - 1} more objects"
    way_out = "allow it, so that Kueue learns of it"
    if verb == "delete":
        way_out = "allow it or delete the object yourself"
    return (
        f"The API server denies the operator to {verb} {first.kind} {first.name}{more}: {first.message[:1000]}; "
        f"{way_out}. The operator tries again every 15 s"
    )


def _describe_queue(observed: Observed) -> Event:
    """Describes the queue of a job that runs on without it; a job at rest waits, with the reason QueueMissing."""
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
    listed = ", ".join(found[:NAMED])
    if len(found) > NAMED:
        listed += ", ..."
    return (
        f"{len(found)} pods carry this job's label railhead.dev/job-uid and are not its own: {listed}; the operator "
        "ignores them. If they are copies of the job's pods, delete them or remove the label"
    )


def _describe_cpu_limits(observed: Observed) -> str:
    """Describes CPU limits that the job did not ask for. Its pods have none by default: a throttled raylet looks dead.

    The pods are not named, so that the message stays the same when some are replaced.
    """
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
