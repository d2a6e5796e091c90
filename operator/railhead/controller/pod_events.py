"""Why a pod does not start, and whether a node is being added for it, from the Events about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from railhead.contract.times import parse_time
from railhead.planning.facts.reasons import POD_EVENTS
from railhead.planning.pod_view import Problem

# From the kubelet, after all volumes are mounted and the pod has its network.
MOUNTED = frozenset({"Pulling", "Pulled", "Created", "Started"})
# From the cluster autoscaler (processors/status/eventing_scale_up_processor.go) and from Karpenter
# (pkg/controllers/provisioning/scheduling/events.go: NominatePodEvent).
NODE_ADDED = frozenset({"TriggeredScaleUp", "Nominated"})


def find_problem(events: Iterable[Mapping[str, Any]]) -> Problem | None:
    """The newest of a pod's Events that explains why it does not start, unless the pod has got further since."""
    relevant = [event for event in events if event.get("reason") in POD_EVENTS | MOUNTED]
    newest = max(relevant, key=lambda event: (_time(event), event["reason"] in MOUNTED), default=None)
    if newest is None or newest["reason"] in MOUNTED:
        return None
    return Problem(str(newest["reason"]), str(newest.get("message") or newest["reason"]))


def find_node_added(events: Iterable[Mapping[str, Any]]) -> datetime | None:
    """When an autoscaler last said so."""
    return parse_time(max((_time(event) for event in events if event.get("reason") in NODE_ADDED), default=""))


def _time(event: Mapping[str, Any]) -> str:
    """RFC 3339, whose texts sort like the times."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
