"""Lists in status.stuckPods the pods that are Terminating long after their grace period.

The job waits for none of them, but they may still use their GPUs. Usually their node is dead, and only a person can
make sure that the machine is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railhead.api.status import MAX_STUCK_PODS, StuckPod, replace_status
from railhead.contract.times import format_time
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, Event
from railhead.planning.pod_view import STUCK_SECONDS, PodView


def list_stuck_pods(observed: Observed, decision: Decision) -> Decision:
    """Updates the list, with one event for all pods that are new, and wakes the job when the next pod is due."""
    decision = decision.with_wake_by(observed.next_stuck)
    # The longest overdue come first, so the list keeps them when it is full.
    stuck = observed.stuck_pods
    listed = observed.status.stuck_pods or []
    wanted = [_describe_stuck(pod) for pod in stuck[:MAX_STUCK_PODS]]
    known = {pod.name for pod in listed}
    if wanted == listed or _is_still_good(wanted, known):
        return decision
    status = replace_status(decision.status_after(observed), stuck_pods=wanted or None)
    new = [pod for pod in stuck if pod.name not in known]
    events = decision.events
    # A full list leaves out pods, so those that it does not name may have had their event.
    if new and len(listed) < MAX_STUCK_PODS:
        events = (*events, _report_stuck(new))
    return replace(decision.with_status(status), events=events)


def _is_still_good(wanted: Sequence[StuckPod], known: set[str]) -> bool:
    """Returns whether a full list may stay: until half of its pods are gone, so that 512 pods that end cost few
    writes."""
    kept = sum(pod.name in known for pod in wanted)
    return len(wanted) == len(known) == MAX_STUCK_PODS and 2 * kept > MAX_STUCK_PODS


def _describe_stuck(pod: PodView) -> StuckPod:
    since = None
    if pod.deletion_timestamp is not None:
        since = format_time(pod.deletion_timestamp)
    return StuckPod(name=pod.name, node=pod.node, since=since)


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
