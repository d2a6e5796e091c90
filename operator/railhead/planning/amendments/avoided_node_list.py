"""Lists in status.avoidedNodes the nodes that get no new pods of the job.

A node joins the list in the write that follows its evidence anyway; the end of an avoidance is a separate write.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.api.status import AvoidedNode, replace_status
from railhead.contract.times import parse_time
from railhead.planning.facts.avoided_nodes import (
    Avoidance,
    compute_avoidance,
    find_blocked,
    list_evidence,
    next_avoidance_change,
)
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.wanted_status import changes_anything


def list_avoided_nodes(job: Job, decision: Decision) -> Decision:
    """Updates the list, with an event for each node, and wakes the job for the next change. A finished job keeps it."""
    if job.status.is_finished:
        return decision
    listed = Avoidance.listed(job)
    wanted = compute_avoidance(job)
    decision = decision.with_wake_by(next_avoidance_change(job, wanted.nodes))
    if wanted == listed:
        return decision
    known = {node.name for node in listed.nodes}
    names = {node.name for node in wanted.nodes}
    begun = [node for node in wanted.nodes if node.name not in known]
    ended = [node for node in listed.nodes if node.name not in names]
    is_written = decision.wanted is not None and changes_anything(job, decision.wanted)
    # A node joins with the write that its evidence causes; the end of its time causes none, so it gets its own.
    if not ended and not is_written:
        return decision
    status = replace_status(
        decision.status_after(job),
        avoided_nodes=list(wanted.nodes) or None,
        formerly_avoided_nodes=list(wanted.former) or None,
    )
    ends = [_report_end(job, node) for node in ended]
    begins = [_report(job, node) for node in begun]
    return replace(decision.with_status(status), events=(*decision.events, *ends, *begins))


def _report(job: Job, node: AvoidedNode) -> Event:
    why = next((each.message for each in list_evidence(job) if each.node == node.name), node.reason)
    message = f"Node {node.name} gets no new pods of this job until {node.expiration_time}: {why}"
    return Event("Warning", "NodeAvoided", message[:1000])


def _report_end(job: Job, node: AvoidedNode) -> Event:
    message = f"Node {node.name} may get new pods of this job again: {_explain_end(job, node)}"
    return Event("Normal", "NodeAvoidanceEnded", message[:1000])


def _explain_end(job: Job, node: AvoidedNode) -> str:
    if not job.spec.avoids_nodes:
        return "spec.scheduling.nodeAvoidance is None"
    ends_at = parse_time(node.expiration_time)
    blocked = find_blocked(job, Avoidance.listed(job).nodes)
    if ends_at is None or ends_at <= job.now or blocked is None or blocked.problem is None:
        return "it was avoided long enough"
    return f"the scheduler finds no other node for pod {blocked.name}: {blocked.problem.message}"
