"""What the operator cannot change: deletes that the API server denies, foreign pods with the job's label, and CPU
limits that admission adds to the job's pods.

The conditions DeleteDenied, ForeignPods and CPULimited name the objects, with the API server's words, and go with the
obstacle. A denied delete holds up no other delete, and is tried again after 1, 2, 4, 8, 15, 15 ... s.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api import conditions as types
from railhead.api import names
from railhead.api.errors import InvalidSpec
from railhead.planning.conditions import make_condition
from railhead.planning.observed import Observed, denied_until
from railhead.planning.plan import Decision, Event
from railhead.planning.status_change import StatusChange
from railhead.resources.pod import has_cpu_limit

NAMED = 3


def hold_back_deletes(observed: Observed, decision: Decision) -> Decision:
    """Drops the deletes that were denied a moment ago, and what is only done once all of them have succeeded."""
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
    )
    if held == decision:
        return decision
    return held.waking(min(at for each in observed.denials if (at := denied_until(each, observed.now)) > observed.now))


def report_obstacles(observed: Observed, decision: Decision) -> Decision:
    """Adds a condition for each kind of obstacle, with an event when its message is new, or removes it.

    Not before the job is deleted: the write would change the version that the delete names.
    """
    if decision.delete_job is not None:
        return decision
    denials, foreign = _describe_denials(observed), _describe_foreign_pods(observed)
    decision = _show(observed, decision, types.DELETE_DENIED, Event("Warning", "DeleteDenied", denials, is_series=True))
    decision = _show(observed, decision, types.FOREIGN_PODS, Event("Warning", "ForeignPods", foreign, is_series=True))
    limits = _describe_cpu_limits(observed)
    return _show(observed, decision, types.CPU_LIMITED, Event("Warning", "CPULimitAdded", limits, is_series=True))


def _show(observed: Observed, decision: Decision, type_: str, event: Event) -> Decision:
    """The event's message is empty while there is no such obstacle."""
    known = next((each for each in observed.status.conditions if each.type == type_), None)
    if (known.message if known else "") == event.message:
        return decision
    status = replace(decision.status or StatusChange(), is_guard=False)
    if not event.message:
        return replace(decision, status=status.without_conditions([type_]))
    condition = make_condition(observed, type_, reason=event.reason, message=event.message)
    return replace(decision, status=status.with_conditions(condition), events=(*decision.events, event))


def _describe_denials(observed: Observed) -> str:
    denials = sorted(observed.denials, key=lambda each: each.name)
    if not denials:
        return ""
    first, more = denials[0], f" and {len(denials) - 1} more objects" if len(denials) > 1 else ""
    return (
        f"The API server denies the operator to delete {first.kind} {first.name}{more}: {first.message[:1000]}; "
        "allow it or delete the object yourself. The operator tries again every 15 s"
    )


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
